"""Plans: the JSON of an analyzed plan in, edges between columns out."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import islice

from arco.events.lineage import Soundness
from arco.flow.lineage.derived import Column, Columns
from arco.flow.lineage.facts import PlanFacts
from arco.flow.lineage.fingerprint import fingerprint_of
from arco.flow.lineage.observation import EVERY_COLUMN, MOST_EDGES, Edge
from arco.flow.lineage.operators import LAZY, columns_of
from arco.flow.lineage.tree import Node, decode, tree
from arco.flow.lineage.walk import Walk

_BY_POSITION = frozenset(("AppendData", "OverwriteByExpression", "OverwritePartitionsDynamic"))
# MERGE, UPDATE and DELETE: the rows that stay are written again, beside columns of Spark's own.
_BY_NAME = frozenset(("ReplaceData", "WriteDelta"))


@dataclass(frozen=True)
class PlanLineage:
    """What a plan says of columns."""

    edges: tuple[Edge, ...]
    soundness: Soundness
    fingerprint: str | None
    note: str = ""
    has_own_rows: bool = False  # some stand in the program itself, wherever it has them from


def read_plan(
    text: str | bytes,
    facts: PlanFacts,
    *,
    forget: Collection[str] = (),
    spent: Callable[[], bool] = lambda: False,
) -> PlanLineage:
    """The edges of a plan, which is a query or a write of one.

    `forget` are literals that differ from run to run, as the values of the partition that is made: they
    are left out of the fingerprint. Once `spent` says so, reading ends. It never raises: what cannot be
    read, or not in time, is `table_only`, with a note.
    """
    try:
        return _read(text, frozenset(forget), Walk(facts, columns_of, LAZY, spent))
    except Exception as problem:  # a plan of a kind that nobody has seen yet must not fail a task
        return PlanLineage((), "table_only", None, f"the plan could not be read: {problem!r}")


def _read(text: str | bytes, forget: frozenset[str], walk: Walk) -> PlanLineage:
    root = tree(decode(text))
    query = _query_of(root)
    columns = walk.columns(query)
    fingerprint = fingerprint_of(query, walk.partition_filters, walk.facts, forget)
    note = "; ".join(walk.doubts)
    written = _targets(root, columns)
    edges = tuple(islice(_edges(walk, root, written, fingerprint), MOST_EDGES + 1))
    if len(edges) > MOST_EDGES:
        return PlanLineage(
            (), "table_only", fingerprint, f"there are more than {MOST_EDGES} edges; {note}"
        )
    return PlanLineage(edges, walk.soundness, fingerprint, note, walk.has_own_rows)


def _query_of(root: Node) -> Node:
    """What is written; a plan that writes nothing is the query itself."""
    child = root.child("query")
    if child is not None:
        return child
    inner = root.trees("query")
    return inner[0] if inner else root


def _targets(root: Node, columns: Columns) -> list[tuple[str, Column]]:
    """Each column that is written, by the name that it has in the target."""
    table = root.trees("table")
    names = [each.name for each in table[0].trees("output")] if table else []
    if root.kind in _BY_NAME:
        by_name = {column.name: column for column in columns}
        return [(name, by_name[name]) for name in names if name in by_name]
    if root.kind in _BY_POSITION and len(names) == len(columns):
        return list(zip(names, columns, strict=True))
    return [(column.name, column) for column in columns]


def _edges(
    walk: Walk, root: Node, written: list[tuple[str, Column]], fingerprint: str
) -> Iterator[Edge]:
    rewrites = walk.facts.target if root.kind in _BY_NAME else None
    for name, column in written:
        for origin, how in column.derived.sources.items():
            sql = None if how == "DIRECT" else column.derived.sql
            for dataset in origin.datasets:
                # A row that stays as it is says nothing of where its values came from.
                stays = dataset == rewrites and origin.column == name and how == "DIRECT"
                if not stays:
                    yield Edge(dataset, origin.column, name, how, sql, fingerprint)
    for origin, how in walk.influences:
        for dataset in origin.datasets:
            yield Edge(dataset, origin.column, EVERY_COLUMN, how, None, fingerprint)
