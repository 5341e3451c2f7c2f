"""The edges between columns that the JSON of an analyzed plan describes."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import islice

from arco.events.lineage_payload import Soundness
from arco.flow.lineage.column_origins import PlanColumn, PlanColumns
from arco.flow.lineage.fingerprint import fingerprint_of
from arco.flow.lineage.observation import EVERY_COLUMN, MAX_EDGES, ObservedEdge
from arco.flow.lineage.operators import LAZY, columns_of
from arco.flow.lineage.plan_tree import Node, PlanFacts, build_tree, decode_plan
from arco.flow.lineage.plan_walk import PlanWalk

_BY_POSITION = frozenset(("AppendData", "OverwriteByExpression", "OverwritePartitionsDynamic"))
# MERGE, UPDATE and DELETE write unchanged rows once more, and columns that only Spark uses.
_BY_NAME = frozenset(("ReplaceData", "WriteDelta"))


@dataclass(frozen=True)
class PlanLineage:
    """What a plan says of columns; `has_literal_rows`: the program itself brought some of the rows."""

    edges: tuple[ObservedEdge, ...]
    soundness: Soundness
    fingerprint: str | None
    note: str = ""
    has_literal_rows: bool = False


def read_plan(
    text: str | bytes,
    facts: PlanFacts,
    *,
    ignored_literals: Collection[str] = (),
    is_out_of_time: Callable[[], bool] = lambda: False,
) -> PlanLineage:
    """The lineage of a plan, which is a query or a write of one.

    `ignored_literals` differ from run to run, such as the values of the partition: the fingerprint leaves
    them out. It never raises: a plan that cannot be read, or not in time, is `table_only`, with a note.
    """
    try:
        walk = PlanWalk(facts, columns_of, LAZY, is_out_of_time)
        return _read(text, frozenset(ignored_literals), walk)
    except Exception as problem:  # an unexpected kind of plan must not fail a task
        return PlanLineage((), "table_only", None, f"the plan could not be read: {problem!r}")


def _read(text: str | bytes, ignored_literals: frozenset[str], walk: PlanWalk) -> PlanLineage:
    root = build_tree(decode_plan(text))
    query = _query_of(root)
    columns = walk.columns(query)
    fingerprint = fingerprint_of(query, walk.partition_filters, walk.facts, ignored_literals)
    note = "; ".join(walk.notes)
    written = _written_columns(root, columns)
    edges = tuple(islice(_edges(walk, root, written, fingerprint), MAX_EDGES + 1))
    if len(edges) > MAX_EDGES:
        note = f"there are more than {MAX_EDGES} edges; {note}"
        return PlanLineage((), "table_only", fingerprint, note)
    return PlanLineage(edges, walk.soundness, fingerprint, note, walk.has_literal_rows)


def _query_of(root: Node) -> Node:
    """The query that is written; a plan that writes nothing is the query itself."""
    child = root.child("query")
    if child is not None:
        return child
    inner = root.trees("query")
    return inner[0] if inner else root


def _written_columns(root: Node, columns: PlanColumns) -> list[tuple[str, PlanColumn]]:
    """Each column that is written, by its name in the target."""
    table = root.trees("table")
    names = [each.name for each in table[0].trees("output")] if table else []
    if root.kind in _BY_NAME:
        by_name = {column.name: column for column in columns}
        return [(name, by_name[name]) for name in names if name in by_name]
    if root.kind in _BY_POSITION and len(names) == len(columns):
        return list(zip(names, columns, strict=True))
    return [(column.name, column) for column in columns]


def _edges(
    walk: PlanWalk, root: Node, written: list[tuple[str, PlanColumn]], fingerprint: str
) -> Iterator[ObservedEdge]:
    rewritten = walk.facts.target if root.kind in _BY_NAME else None
    for name, column in written:
        for source, step in column.derivation.sources.items():
            sql = None if step == "DIRECT" else column.derivation.sql
            for dataset in source.datasets:
                # An unchanged row says nothing of where its values came from.
                is_unchanged = dataset == rewritten and source.column == name and step == "DIRECT"
                if not is_unchanged:
                    yield ObservedEdge(dataset, source.column, name, step, sql, fingerprint)
    for source, kind in walk.influences:
        for dataset in source.datasets:
            yield ObservedEdge(dataset, source.column, EVERY_COLUMN, kind, None, fingerprint)
