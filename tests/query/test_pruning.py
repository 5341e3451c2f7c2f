"""Files that a query rules out are not read, and the answer is the same as if they were."""

from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.catalog.reader import SnapshotReader
from arco.core.scope import Scope
from arco.fold.fold import fold
from arco.fold.table import StateTable
from arco.fold.tier2 import EXECUTIONS, EXECUTIONS_DOMAIN, PARTITIONS, QUARANTINE, TASKS
from arco.query.engine import SqlEngine
from arco.query.limits import QueryLimits
from arco.query.pruning import (
    ALL_VALUES,
    Span,
    Spans,
    intersect,
    overlaps_range,
    point_spans,
    union,
)
from arco.query.session import SqlSession
from arco.query.system_tables import SYSTEM_SCHEMAS, filter_columns
from arco.storage.backend import ObservedBackend
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.query.published import Publishing, rows_of
from tests.query.workspace import Workspace, workspace
from tests.storage.recorder import Recorder

RUNS = tuple(f"{letter}{n}" for letter in "abcdefgh" for n in range(6))
STATUSES = ("PENDING", "RUNNING", "SUCCESS", "FAILED")


def _watched(space: Workspace, recorder: Recorder) -> SqlEngine:
    backend = ObservedBackend(space.backend, recorder, space.runtime.clock)
    store = Store(backend, space.runtime, scope=Scope(), role=Role.READER)
    return SqlEngine(SnapshotReader(store))


def _files(recorder: Recorder, table: str) -> int:
    return len([key for _, key in recorder.requests if f"/all/{table}/" in key])


class _RandomRows:
    """Random rows of runs and their tasks, and what a fold of all of them gives."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._all: dict[str, list[pa.Table]] = {"executions": [], "tasks": []}

    def runs(self, count: int, order: int) -> tuple[StateTable, pa.Table]:
        rows = [
            {"execution_id": each, "status": self._random.choice(STATUSES), "pipeline_id": each[0]}
            for each in self._random.sample(RUNS, count)
        ]
        return self._keep(EXECUTIONS, rows, order)

    def tasks(self, count: int, order: int) -> tuple[StateTable, pa.Table]:
        rows = [
            {
                "execution_id": self._random.choice(RUNS),
                "task_id": f"t{self._random.randrange(4)}",
                "attempt": self._random.randrange(3),
                "status": self._random.choice(STATUSES),
            }
            for _ in range(count)
        ]
        return self._keep(TASKS, rows, order)

    def tables(self) -> dict[str, pa.Table]:
        """The tables of `system` as they are when every file is read."""
        return {
            table.name: fold(table, pa.concat_tables(self._all[table.name])).select(
                list(SYSTEM_SCHEMAS[table.name].names)
            )
            for table in (EXECUTIONS, TASKS)
        }

    def _keep(
        self, table: StateTable, rows: list[dict[str, Any]], order: int
    ) -> tuple[StateTable, pa.Table]:
        made = fold(table, rows_of(table, *rows, order=order))
        self._all[table.name].append(made)
        return table, made


class _RandomQueries:
    """Random questions."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def sql(self) -> str:
        e, t = self._filter("e"), self._filter("t")
        return self._random.choice(
            (
                f"SELECT * FROM executions e WHERE {e}",
                f"SELECT * FROM tasks t WHERE {t}",
                f"SELECT t.execution_id, count(*) AS n FROM tasks t WHERE {t} GROUP BY 1",
                (
                    f"SELECT e.execution_id, t.task_id FROM executions e JOIN tasks t "
                    f"ON e.execution_id = t.execution_id WHERE {e} AND {t}"
                ),
                (
                    f"SELECT e.execution_id, t.task_id FROM executions e LEFT JOIN tasks t "
                    f"ON e.execution_id = t.execution_id AND {t} WHERE {e}"
                ),
                (
                    f"SELECT e.execution_id, t.task_id FROM executions e FULL JOIN tasks t "
                    f"ON e.execution_id = t.execution_id AND {e}"
                ),
                (
                    f"SELECT e.execution_id FROM executions e WHERE {e} AND e.execution_id IN "
                    f"(SELECT t.execution_id FROM tasks t WHERE {t})"
                ),
                (
                    f"SELECT e.execution_id FROM executions e WHERE {e} AND NOT EXISTS "
                    f"(SELECT 1 FROM tasks t WHERE t.execution_id = e.execution_id AND {t})"
                ),
                (
                    f"SELECT execution_id FROM executions e WHERE {e} "
                    f"UNION ALL SELECT execution_id FROM tasks t WHERE {t}"
                ),
                (
                    f"SELECT execution_id FROM tasks t WHERE {t} "
                    f"EXCEPT SELECT execution_id FROM executions e WHERE {e}"
                ),
                (
                    f"SELECT e.execution_id, (SELECT count(*) FROM tasks t WHERE {t}) AS n "
                    f"FROM executions e WHERE {e}"
                ),
                (
                    f"SELECT * FROM (SELECT execution_id, row_number() OVER "
                    f"(PARTITION BY execution_id ORDER BY task_id) AS n FROM tasks) t WHERE {t}"
                ),
            )
        )

    def _filter(self, name: str, depth: int = 2) -> str:
        column = f"{name}.execution_id"
        if depth and self._random.random() < 0.5:
            word = self._random.choice(("AND", "OR"))
            both = f"({self._filter(name, depth - 1)} {word} {self._filter(name, depth - 1)})"
            return f"NOT {both}" if self._random.random() < 0.2 else both
        values = [self._value() for _ in range(self._random.randrange(1, 6))]
        listed = ", ".join(values)
        low, high = sorted((self._value(), self._value()))
        sign = self._random.choice(("=", "<", "<=", ">", ">=", "<>"))
        chosen: str = self._random.choice(
            (
                f"{column} {sign} {values[0]}",
                f"{values[0]} {sign} {column}",
                f"{column} IN ({listed})",
                f"{column} NOT IN ({listed})",
                f"{column} BETWEEN {low} AND {high}",
                f"{column} LIKE 'b%'",
                f"{column} IS NOT NULL",
                *((f"{name}.status = 'FAILED'",) if name == "e" else ()),
            )
        )
        return chosen

    def _value(self) -> str:
        run_id = self._random.choice(RUNS)
        return f"'{self._random.choice((run_id, run_id, run_id[0], 'zz', ''))}'"


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


@pytest.mark.parametrize("seed", range(4))
async def test_what_is_passed_over_changes_no_answer(seed: int) -> None:
    random = Random(seed)
    random_rows, random_queries = _RandomRows(random), _RandomQueries(random)
    unpruned_session = SqlSession(QueryLimits(), SYSTEM_SCHEMAS, filter_columns)
    # For every other seed only the columns in use are decoded, as of large tables.
    limits = QueryLimits(wide_rows=0 if seed % 2 else QueryLimits().wide_rows)
    async with workspace(limits=limits) as space:
        executions = Publishing(space, EXECUTIONS_DOMAIN)
        await executions.base(*random_rows.runs(30, 1))
        await executions.base(*random_rows.tasks(60, 1))
        for order in range(2, 8):
            await executions.tail(random_rows.runs(4, order), random_rows.tasks(8, order))
        tables = random_rows.tables()
        spared = 0
        for _ in range(60):
            sql = random_queries.sql()
            ours = _rows(await space.engine.query(sql))
            assert ours == _rows(unpruned_session.run(sql, tables)), sql
            files = (await space.engine.query(f"EXPLAIN {sql}")).to_pylist()[-1]
            assert files["plan_type"] == "files"
            spared += "0 skipped by bucket, 0 by range" not in files["plan"]
        assert spared > 10  # or nothing would be proven


async def test_a_run_is_found_without_reading_the_files_of_others() -> None:
    async with workspace() as space:
        executions = Publishing(space, EXECUTIONS_DOMAIN)
        rows = [{"execution_id": f"run {n}", "status": "RUNNING"} for n in range(500)]
        await executions.base(EXECUTIONS, rows_of(EXECUTIONS, *rows))
        for n in range(5):
            late = {"execution_id": f"run {n}", "status": "SUCCESS"}
            await executions.tail((EXECUTIONS, rows_of(EXECUTIONS, late, order=2)))
        recorder = Recorder()
        engine = _watched(space, recorder)
        table = await engine.query(
            "SELECT status FROM system.executions WHERE execution_id = 'run 3'"
        )
        assert table.column(0).to_pylist() == ["SUCCESS"]
        assert _files(recorder, "executions") == 2  # of the base, and of the tail
        recorder.clear()
        both = await engine.query(
            "SELECT execution_id, status FROM system.executions "
            "WHERE execution_id IN ('run 3', 'run 77', 'none') ORDER BY 1"
        )
        assert both.column(1).to_pylist() == ["SUCCESS", "RUNNING"]
        assert _files(recorder, "executions") <= 2  # what is not there yet
        await engine.close()


async def test_a_range_of_the_first_column_spares_files() -> None:
    async with workspace() as space:
        executions = Publishing(space, EXECUTIONS_DOMAIN)
        for letter in "abcd":
            rows = [{"execution_id": f"{letter}{n}", "status": "RUNNING"} for n in range(5)]
            await executions.tail((EXECUTIONS, rows_of(EXECUTIONS, *rows)))
        recorder = Recorder()
        engine = _watched(space, recorder)
        result = await engine.query("SELECT count(*) FROM executions WHERE execution_id > 'c2'")
        assert result.column(0).to_pylist() == [7]
        assert _files(recorder, "executions") == 2
        await engine.close()


async def test_a_column_that_may_change_spares_no_file() -> None:
    """The newer row of a key may be in a file that has nothing of the value that is asked for."""
    async with workspace() as space:
        executions = Publishing(space, EXECUTIONS_DOMAIN)
        old = {"table_id": "t", "partition_id": "p", "partition_key": "a", "status": "RUNNING"}
        await executions.tail((PARTITIONS, rows_of(PARTITIONS, old, order=1)))
        new = {**old, "partition_key": "z"}
        await executions.tail((PARTITIONS, rows_of(PARTITIONS, new, order=2)))
        sql = "SELECT count(*) FROM system.partitions WHERE partition_key = 'a'"
        assert await space.column(sql) == [0]
        # And names of the catalog, by which its tables are sorted, are such.
        await space.catalog("one")
        one = "SELECT count(*) FROM system.catalogs WHERE name = 'one'"
        assert await space.column(one) == [1]
        assert filter_columns("catalogs") == frozenset()
        assert filter_columns("schemas") == frozenset()


async def test_tables_of_the_catalog_are_pruned_too_and_what_is_alive_is_still_known() -> None:
    async with workspace() as space:
        ids = []
        for n in range(12):
            await space.schema(f"s{n}")
            made = await space.table(f"s{n}", "t", id="int")
            ids.append(made.object.row.table_id)  # type: ignore[union-attr]
        await space.compactor.merge()
        recorder = Recorder()
        engine = _watched(space, recorder)
        result = await engine.query(f"SELECT name FROM system.columns WHERE table_id = '{ids[3]}'")
        assert result.column(0).to_pylist() == ["id"]
        assert _files(recorder, "columns") == 1
        assert _files(recorder, "tables") > 5  # whether it is alive
        await engine.close()


async def test_explain_shows_how_many_files_were_read_and_skipped() -> None:
    async with workspace() as space:
        executions = Publishing(space, EXECUTIONS_DOMAIN)
        rows = [{"execution_id": f"run {n:03d}", "status": "RUNNING"} for n in range(300)]
        await executions.base(EXECUTIONS, rows_of(EXECUTIONS, *rows))
        for n in range(3):
            late = [{"execution_id": f"late {n}{each}", "status": "SUCCESS"} for each in "ab"]
            await executions.tail((EXECUTIONS, rows_of(EXECUTIONS, *late, order=2)))
        for words in ("EXPLAIN", "EXPLAIN ANALYZE", "EXPLAIN VERBOSE"):
            plan = await space.ask(
                f"{words} SELECT * FROM system.executions WHERE execution_id = 'run 007'"
            )
            assert plan[-1] == {
                "plan_type": "files",
                "plan": "executions/executions: 1 of 67 files read, 66 skipped by bucket, 0 by range",
            }
        plan = await space.ask("EXPLAIN SELECT * FROM executions WHERE execution_id >= 'run'")
        assert plan[-1]["plan"].endswith("0 skipped by bucket, 3 by range")
        plan = await space.ask("EXPLAIN SELECT 1")
        assert plan[-1]["plan"] == "no files are read"


async def test_streams_of_the_quarantine_spare_files() -> None:
    async with workspace() as space:
        executions = Publishing(space, EXECUTIONS_DOMAIN)
        for stream in "abc":
            row = {"stream": stream, "segment": 1, "line": 1, "reason": stream}
            await executions.tail((QUARANTINE, rows_of(QUARANTINE, row)))
        recorder = Recorder()
        engine = _watched(space, recorder)
        result = await engine.query("SELECT reason FROM system.quarantine WHERE stream = 'b'")
        assert result.column(0).to_pylist() == ["b"]
        assert _files(recorder, "quarantine") == 1
        await engine.close()


TEXT = st.text(alphabet="aбz\U0001f600", max_size=2)
ENDS = st.one_of(st.none(), TEXT)


def _holds(spans: Spans, value: str) -> bool:
    return any(span.overlaps(value, value) for span in spans)


def _ends_before(one: Span, other: Span) -> bool:
    return one.high is not None and other.low is not None and one.high < other.low


def _span(ends: tuple[str | None, str | None]) -> Spans:
    low, high = ends
    if low is not None and high is not None and low > high:
        low, high = high, low
    return (Span(low, high),)


SPANS = st.recursive(
    st.one_of(
        st.tuples(ENDS, ENDS).map(_span),
        st.lists(TEXT, max_size=4).map(point_spans),
        st.just(ALL_VALUES),
        st.just(()),
    ),
    lambda inner: st.tuples(st.sampled_from((intersect, union)), inner, inner).map(
        lambda each: each[0](each[1], each[2])
    ),
    max_leaves=6,
)


@given(SPANS, SPANS, TEXT)
def test_a_value_meets_both_or_either_as_it_meets_each(
    one: Spans, other: Spans, value: str
) -> None:
    assert _holds(intersect(one, other), value) == (_holds(one, value) and _holds(other, value))
    assert _holds(union(one, other), value) == (_holds(one, value) or _holds(other, value))
    for spans in (intersect(one, other), union(one, other)):
        assert all(_ends_before(*each) for each in pairwise(spans))


@given(SPANS, TEXT, TEXT)
def test_a_range_is_reached_as_one_of_the_spans_overlaps_it(spans: Spans, a: str, b: str) -> None:
    low, high = sorted((a, b))
    assert overlaps_range(spans, low, high) == any(span.overlaps(low, high) for span in spans)


@given(st.lists(st.text(max_size=3)))
def test_texts_sort_as_their_bytes_do(texts: list[str]) -> None:
    assert sorted(texts) == [raw.decode() for raw in sorted(text.encode() for text in texts)]


def test_too_many_points_become_one_span_that_holds_them() -> None:
    values = [f"{n:06d}" for n in range(30_000)]
    assert point_spans(values) == (Span(values[0], values[-1]),)
    assert point_spans(values[:100]) == tuple(Span(value, value) for value in values[:100])
