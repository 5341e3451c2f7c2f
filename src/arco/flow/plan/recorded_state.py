"""The recorded state of partitions and of tasks, read from the event tables in columns.

Tasks that write no table appear among the tables of a state under their own names, so that planning reads
both alike: when they last ran, with which code and on which data.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from arco.catalog.name import parse_dotted
from arco.flow.plan.event_query import FRESH, EventEngine, all_rows, among, literal, milliseconds
from arco.flow.plan.keys import task_key
from arco.flow.plan.table_state import CODE_METRIC, INPUTS_METRIC, TableState

MAX_PARTITION_ROWS = 99_000  # of one answer; the engine allows a few more
MAX_TABLES = 1_000  # named in one query

_COLUMNS = (
    "table_id",
    "coalesce(partition_key, '') AS key",
    "coalesce(status, 'PENDING') AS status",
    "materialization_id",
    "input_fingerprint",
    "code_fingerprint",
    f"{milliseconds('last_successful_run')} AS made_at_ms",
)
_SUCCESS = "SUCCESS"
_STATUSES = {_SUCCESS: "COMPLETE", "FAILED": "FAILED", "BLOCKED": "FAILED"}


@dataclass(frozen=True)
class RecordedPartitions:
    """Rows of `system.partitions` of one table."""

    table_id: str
    rows: pa.Table

    def add_to(self, table: TableState) -> TableState:
        """The table with these partitions."""
        return msgspec.structs.replace(
            table,
            keys=self._values("key"),
            statuses=self._values("status"),
            materials=self._values("materialization_id"),
            input_fingerprints=self._values("input_fingerprint"),
            code_fingerprints=self._values("code_fingerprint"),
            made_at_ms=self._values("made_at_ms"),
        )

    def _values(self, column: str) -> tuple[str, ...]:
        return tuple(self.rows.column(column).to_pylist())


async def read_partitions(
    engine: EventEngine, table_ids: Sequence[str]
) -> dict[str, RecordedPartitions]:
    """The partitions of each table that has any; one query, unless there are very many."""
    pages: list[pa.Table] = []
    for start in range(0, len(table_ids), MAX_TABLES):
        pages += await _pages(engine, among("table_id", table_ids[start : start + MAX_TABLES]))
    if not pages:
        return {}
    return {each.table_id: each for each in _by_table(pa.concat_tables(pages))}


async def _pages(engine: EventEngine, where: str) -> list[pa.Table]:
    """All rows by table and key, page by page; each page may be of a later moment."""
    pages: list[pa.Table] = []
    after = ""
    while True:
        page = await engine.query(
            f"SELECT {', '.join(_COLUMNS)} FROM system.partitions WHERE {where}{after} "  # noqa: S608
            f"ORDER BY 1, 2 LIMIT {MAX_PARTITION_ROWS}",
            freshness=FRESH,
        )
        pages.append(page)
        if page.num_rows < MAX_PARTITION_ROWS:
            return pages
        table_id, key = (literal(page.column(name)[-1].as_py()) for name in ("table_id", "key"))
        next_key = f"coalesce(partition_key, '') > {key}"
        after = f" AND (table_id > {table_id} OR (table_id = {table_id} AND {next_key}))"


def _by_table(rows: pa.Table) -> Iterator[RecordedPartitions]:
    """Splits rows that are sorted by table, without visiting each row."""
    if not rows.num_rows:
        return
    runs = pc.run_end_encode(rows.column("table_id").combine_chunks())
    start = 0
    for table_id, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        yield RecordedPartitions(table_id, rows.slice(start, end - start))
        start = end


def is_task(name: str) -> bool:
    """Whether a name among those of tables is a task's: names of tables have at least three levels."""
    return len(parse_dotted(name)) < 3


async def read_tasks(engine: EventEngine, names: Sequence[str]) -> dict[str, TableState]:
    """The state of tasks, by their names."""
    if not names:
        return {}
    rows = [row async for row in all_rows(engine, _task_query(names), "nth = 1", "task_id", "kind")]
    tasks: dict[str, dict[str, _TaskRun]] = {task_key(name, ""): {} for name in names}
    for row in sorted(rows, key=lambda each: (each["moment"], each["execution_id"])):
        task, _, partition = row["task_id"].partition("@")
        tasks[task][partition] = tasks[task].get(partition, _TaskRun()).then(row)
    return {name: _task_state(tasks[task_key(name, "")]) for name in names}


def _task_query(names: Sequence[str]) -> str:
    """The last success and the last failure of each task, however often it ran."""
    kind = f"CASE WHEN status = {literal(_SUCCESS)} THEN 'good' ELSE 'bad' END"
    keys = [task_key(name, "") for name in names]
    newest = "ORDER BY completed_at DESC, execution_id DESC"
    return (
        "SELECT task_id, status, execution_id, metrics, moment, kind, "  # noqa: S608
        f"{milliseconds('completed_at')} AS at FROM (SELECT *, {kind} AS kind, "
        "CAST(completed_at AS BIGINT) AS moment, "
        f"row_number() OVER (PARTITION BY task_id, {kind} {newest}) AS nth FROM system.tasks "
        f"WHERE {among('split_part(task_id, chr(64), 1)', keys)} AND {among('status', _STATUSES)} "
        "AND completed_at IS NOT NULL)"
    )


@dataclass(frozen=True)
class _TaskRun:
    """The status of a partition's last run, and the fingerprints of its last success."""

    status: str = "PENDING"
    material: str | None = None
    inputs: str | None = None
    code: str | None = None
    at_ms: int | None = None

    def then(self, row: dict[str, Any]) -> "_TaskRun":
        """The state after a later run."""
        status = _STATUSES[row["status"]]
        if row["status"] != _SUCCESS:
            return replace(self, status=status)
        metrics = dict(row["metrics"] or ())
        material = f"{row['execution_id']}/{row['task_id']}"
        return _TaskRun(
            status, material, metrics.get(INPUTS_METRIC), metrics.get(CODE_METRIC), row["at"]
        )


def _task_state(runs: dict[str, _TaskRun]) -> TableState:
    keys = tuple(sorted(runs))
    by_key = [runs[key] for key in keys]
    return TableState(
        keys=keys,
        statuses=tuple(each.status for each in by_key),
        materials=tuple(each.material for each in by_key),
        input_fingerprints=tuple(each.inputs for each in by_key),
        code_fingerprints=tuple(each.code for each in by_key),
        made_at_ms=tuple(each.at_ms for each in by_key),
    )
