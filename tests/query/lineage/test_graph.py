"""The arrays say what plain loops over the same rows say."""

from collections import defaultdict, deque
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from arco.events.lineage_payload import ColumnEdge, edge_id, table_edge_id
from arco.fold.tier2 import LINEAGE_EDGES
from arco.query.lineage.graph import BY_ID, EDGE_COLUMNS, INFLUENCES, LineageGraph, build_graph
from arco.query.lineage.traversal import NONE, UNREACHED, find_impact, outdated_edges, walk

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
SCHEMA = pa.schema([LINEAGE_EDGES.schema.field(name) for name in EDGE_COLUMNS])


@dataclass(frozen=True)
class Plain:
    """An edge as a test draws it; without columns it is one of tables."""

    source: str
    target: str
    columns: tuple[str, str] | None
    kind: str = "UNKNOWN"

    @property
    def reach(self) -> int:
        if self.columns is None:
            return 2
        return 1 if self.kind in INFLUENCES else 0

    def row(self) -> dict[str, object]:
        if self.columns is None:
            edge = ColumnEdge(source_table_id=self.source, target_table_id=self.target)
            name = table_edge_id(edge)
        else:
            source, target = self.columns
            edge = ColumnEdge(
                source_table_id=self.source,
                source_column_id=f"{self.source}-{source}",
                source_name=source,
                target_table_id=self.target,
                target_column_id=None if target == "*" else f"{self.target}-{target}",
                target_name=target,
                transformation_type=self.kind,  # type: ignore[arg-type]
            )
            name = edge_id(edge)
        return {
            "edge_id": name,
            **{field: getattr(edge, field) for field in SCHEMA.names if hasattr(edge, field)},
            "soundness": "exact",
            "first_observed_at": NOON,
            "last_observed_at": NOON,
        }


_TABLES = st.sampled_from("abcdefg")
_COLUMNS = st.tuples(st.sampled_from("xyz"), st.sampled_from("xyz*"))
_EDGES = st.lists(
    st.builds(
        Plain,
        _TABLES,
        _TABLES,
        st.none() | _COLUMNS,
        st.sampled_from(["DIRECT", "FILTER", "CASE", "JOIN"]),
    ),
    min_size=1,
    max_size=25,
    unique=True,
)


def _graph(edges: list[Plain]) -> LineageGraph:
    rows = {str(row["edge_id"]): row for row in (edge.row() for edge in edges)}
    return build_graph(pa.Table.from_pylist(list(rows.values()), schema=SCHEMA))


def _distances(edges: list[Plain], start: str, depth: int, *, up: bool) -> dict[str, int]:
    distances, waiting = {start: 0}, deque([start])
    while waiting:
        at = waiting.popleft()
        if distances[at] == depth:
            continue
        for edge in edges:
            near, far = (edge.target, edge.source) if up else (edge.source, edge.target)
            if near == at and far not in distances:
                distances[far] = distances[at] + 1
                waiting.append(far)
    return distances


@given(_EDGES, st.integers(1, 8))
def test_walks_reach_the_same_tables_as_a_plain_search(edges: list[Plain], depth: int) -> None:
    graph = _graph(edges)
    start = edges[0].source
    walked = walk(graph, graph.table_numbers[start], up=True, down=True, depth=depth)
    for up, distances in ((True, walked.up), (False, walked.down)):
        plain = _distances(edges, start, depth, up=up)
        reached = {
            name: int(distance)
            for name, distance in zip(graph.tables, distances, strict=True)
            if distance != UNREACHED
        }
        assert reached == plain
    upstream, downstream = (_distances(edges, start, depth - 1, up=up) for up in (True, False))
    followed = {
        (graph.tables[graph.pair_sources[pair]], graph.tables[graph.pair_targets[pair]])
        for pair in walked.pairs
    }
    assert followed == {
        (edge.source, edge.target)
        for edge in edges
        if edge.target in upstream or edge.source in downstream
    }


def _affected(edges: list[Plain], table: str, column: str) -> dict[tuple[str, str], int]:
    """Everything below a column and the surest way to it, by repeating until nothing changes."""
    reach: dict[tuple[str, str], int] = {(table, column): 0}
    for level in (0, 1, 2):
        usable = [edge for edge in edges if edge.reach <= level]
        grows = True
        while grows:
            grows = False
            columns_by_table = defaultdict(set)
            for name, each in reach:
                columns_by_table[name].add(each)
            for edge in usable:
                source, target = edge.columns or ("*", "*")
                leaves = (
                    "*" in columns_by_table[edge.source] or source in columns_by_table[edge.source]
                )
                leaves = leaves or (edge.columns is None and bool(columns_by_table[edge.source]))
                if leaves and (edge.target, target) not in reach:
                    reach[edge.target, target] = level
                    grows = True
    del reach[table, column]
    return reach


@given(_EDGES, st.sampled_from("xyz"))
def test_impacts_match_a_plain_search_in_reach_certainty_and_path(
    edges: list[Plain], column: str
) -> None:
    graph = _graph(edges)
    start = edges[0].source
    table = graph.table_numbers[start]
    own = graph.column_numbers.get((table, f"{BY_ID}{start}-{column}"))
    impact = find_impact(graph, table, [] if own is None else [own], outdated_edges(graph))
    reached = {}
    for vertex in impact.vertices.tolist():
        name = graph.tables[graph.table_of(vertex)]
        text = "*" if vertex >= len(graph.columns) else graph.columns[vertex][1][-1]
        reached[name, text] = int(impact.reach[vertex])
        steps, at = [], vertex
        while impact.edge[at] != NONE:
            assert graph.targets[impact.edge[at]] == at
            steps.append(int(graph.reaches[impact.edge[at]]))
            at = int(impact.before[at])
        assert len(steps) == impact.distance[vertex]
        assert max(steps) == impact.reach[vertex]
    assert reached == _affected(edges, start, column)
