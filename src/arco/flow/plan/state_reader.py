"""The state of tables for planning: catalog, recorded partitions, and versions of source tables.

Cost: one read of the catalog, up to seven SQL queries, two at a time, and one read of the present version
of each source table.
"""

from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from arco.catalog.ddl import TableName
from arco.catalog.name import parse_dotted
from arco.catalog.publication import FLOW
from arco.catalog.reader import SnapshotReader
from arco.catalog.snapshot import Snapshot
from arco.core import json
from arco.core.errors import NotFound
from arco.core.sql_literal import quote_text
from arco.events.partition import PRESENT
from arco.flow.plan.event_query import (
    FRESH,
    CallerEventEngine,
    EventEngine,
    SharedEventEngine,
    all_rows,
    among,
    milliseconds,
)
from arco.flow.plan.keys import read_key, task_key
from arco.flow.plan.recorded_state import (
    MAX_TABLES,
    RecordedPartitions,
    is_task,
    read_partitions,
    read_tasks,
)
from arco.flow.plan.table_state import (
    CODE_METRIC,
    COLUMN_CHANGES_METRIC,
    ColumnChange,
    LastAttempt,
    PlanningState,
    TableContents,
    TableState,
)

_CONCURRENT_VERSIONS = 8
_CONCURRENT_QUERIES = 2  # so that several reads of one caller fit into its queue
_FAILED = ("FAILED", "BLOCKED")
_ENDED = ("SUCCESS", *_FAILED)
_NTH = (
    "row_number() OVER (PARTITION BY task_id "
    "ORDER BY coalesce(completed_at, started_at) DESC NULLS FIRST, execution_id DESC)"
)
_CHANGES = (("table_stats", "last_modified_at"), ("table_commits", "committed_at"))
_BY_OTHERS = f"""update_source <> {quote_text(FLOW)} AND changed LIKE '%"set-snapshot-ref"%'"""


class SqlStateReader:
    """A `StateReader` over fresh SQL; `events` reads the manifests of the `executions` domain."""

    def __init__(
        self,
        engine: SharedEventEngine,
        catalog: SnapshotReader,
        events: SnapshotReader,
        versions: TableContents,
    ) -> None:
        self._engine = engine
        self._catalog = catalog
        self._events = events
        self._versions = versions

    async def state(
        self, tables: Sequence[str], files_of: Sequence[str] = (), *, caller: str | None = None
    ) -> PlanningState:
        """The state of these tables now, by their full names; shorter names are those of tasks."""
        engine = CallerEventEngine(self._engine, caller)
        reading = _StateReading(engine, self._catalog, self._events, self._versions)
        return await reading.state(tables, files_of)


class _StateReading:
    """One read of a state, for one caller."""

    def __init__(
        self,
        engine: EventEngine,
        catalog: SnapshotReader,
        events: SnapshotReader,
        versions: TableContents,
    ) -> None:
        self._engine = engine
        self._catalog = catalog
        self._events = events
        self._versions = versions
        self._tasks = catalog.store.runtime.tasks

    async def state(self, tables: Sequence[str], files_of: Sequence[str]) -> PlanningState:
        """The state of these tables now."""
        number = (await self._events.head()).number
        tasks = [name for name in tables if is_task(name)]
        entries = await self._catalog_entries([name for name in tables if not is_task(name)])
        records = _Records()
        reads: list[Callable[[], Coroutine[Any, Any, None]]] = [
            lambda: self._read_partitions(records, entries),
            lambda: self._read_changes(records, entries),
            lambda: self._read_others(records, entries),
            lambda: self._read_failures(records, entries),
            lambda: self._read_attempts(records, entries),
            lambda: self._read_values(records),
            lambda: self._read_tasks(records, tasks),
        ]
        for start in range(0, len(reads), _CONCURRENT_QUERIES):
            await self._tasks.gather(
                *(read() for read in reads[start : start + _CONCURRENT_QUERIES])
            )
        states = {name: records.add_to(name, entry) for name, entry in entries.items()}
        states |= records.tasks
        unrecorded = [name for name, table in states.items() if table.table_id and not table.keys]
        for start in range(0, len(unrecorded), _CONCURRENT_VERSIONS):
            names = unrecorded[start : start + _CONCURRENT_VERSIONS]
            versioned = await self._tasks.gather(*(self._versioned(states[name]) for name in names))
            states.update(zip(names, versioned, strict=True))
        for name, failed in records.failed.items():
            states[name] = _with_failures(states[name], failed)
        for name in states.keys() & set(files_of):
            states[name] = await self._with_foreign_files(states[name])
        return PlanningState(number=number, tables=states, dynamic=records.dynamic)

    async def _catalog_entries(self, tables: Sequence[str]) -> dict[str, TableState]:
        snapshot = await self._catalog.head()
        return {name: await _catalog_entry(snapshot, name) for name in tables}

    async def _read_partitions(self, records: "_Records", entries: dict[str, TableState]) -> None:
        records.partitions = await read_partitions(self._engine, _ids(entries))

    async def _read_changes(self, records: "_Records", entries: dict[str, TableState]) -> None:
        """When the tables last changed, by any recorded write."""
        for ids in _batches(_ids(entries)):
            where = among("table_id", ids)
            sql = " UNION ALL ".join(
                f"SELECT table_id, {milliseconds(f'max({moment})')} AS at FROM system.{table} "  # noqa: S608
                f"WHERE {where} GROUP BY table_id"
                for table, moment in _CHANGES
            )
            for row in await self._rows(sql):
                times = (row["at"], records.changed.get(row["table_id"]))
                records.changed[row["table_id"]] = max(filter(None, times), default=None)

    async def _read_others(self, records: "_Records", entries: dict[str, TableState]) -> None:
        """When programs other than pipelines last wrote to the tables, and which."""
        for ids in _batches(_ids(entries)):
            sql = (
                f"SELECT table_id, {milliseconds('max(committed_at)')} AS at, "  # noqa: S608
                f"last_value(engine ORDER BY committed_at) AS engine FROM system.table_commits "
                f"WHERE {among('table_id', ids)} AND {_BY_OTHERS} GROUP BY table_id"
            )
            for row in await self._rows(sql):
                records.others[row["table_id"]] = row["at"], row["engine"]

    async def _read_failures(self, records: "_Records", entries: dict[str, TableState]) -> None:
        """Tasks that failed before their table existed; no row of a partition records them.

        The last run of each counts: one that was planned and has not begun is later than all that ended.
        """
        failed = among("status", _FAILED)
        for tables in _batches(list(entries)):
            names = [task_key(name, "") for name in tables]
            select = (
                f"SELECT task_id FROM (SELECT task_id, status, {_NTH} AS nth "  # noqa: S608
                "FROM system.tasks WHERE task_id IN (SELECT task_id FROM system.tasks "
                f"WHERE table_id IS NULL AND {failed} "
                f"AND {among('split_part(task_id, chr(64), 1)', names)}))"
            )
            async for row in all_rows(self._engine, select, f"nth = 1 AND {failed}", "task_id"):
                key = read_key(row["task_id"])
                records.failed.setdefault(key.maker, []).append(key.partition)

    async def _read_attempts(self, records: "_Records", entries: dict[str, TableState]) -> None:
        """The last attempt for each existing table, if the columns of its result differed."""
        existing = [name for name, entry in entries.items() if entry.table_id is not None]
        for tables in _batches(existing):
            names = [task_key(name, "") for name in tables]
            select = (
                "SELECT task_id, execution_id, table_id, status, at, code, changes FROM ("  # noqa: S608
                f"SELECT *, {milliseconds('completed_at')} AS at, metrics['{CODE_METRIC}'] AS code, "
                f"metrics['{COLUMN_CHANGES_METRIC}'] AS changes, row_number() OVER (PARTITION BY "
                "split_part(task_id, chr(64), 1) ORDER BY completed_at DESC, execution_id DESC, task_id) "
                f"AS nth FROM system.tasks WHERE {among('split_part(task_id, chr(64), 1)', names)} "
                f"AND {among('status', _ENDED)} AND completed_at IS NOT NULL "
                f"AND metrics['{CODE_METRIC}'] IS NOT NULL)"
            )
            async for row in all_rows(
                self._engine, select, "nth = 1 AND changes IS NOT NULL", "task_id", "execution_id"
            ):
                if row["table_id"] == entries[read_key(row["task_id"]).maker].table_id:
                    records.add_attempt(row)

    async def _read_tasks(self, records: "_Records", names: Sequence[str]) -> None:
        records.tasks = await read_tasks(self._engine, names)

    async def _read_values(self, records: "_Records") -> None:
        select = "SELECT dimension, value FROM system.partition_values"
        where = f"status = {quote_text(PRESENT)}"
        values: dict[str, list[str]] = {}
        async for row in all_rows(self._engine, select, where, "dimension", "value"):
            values.setdefault(row["dimension"], []).append(row["value"])
        records.dynamic = {name: tuple(each) for name, each in values.items()}

    async def _with_foreign_files(self, table: TableState) -> TableState:
        """A pipeline's table with the files that other programs have added to its partitions.

        A file is the pipeline's if the table has the snapshot that added it and that names an attempt, or
        if the commit of that snapshot was recorded as the pipeline's: snapshots expire, records stay.
        """
        if table.table_id is None or table.format is None or table.others_at_ms is None:
            return table
        files = await self._versions.unproven_files(table.table_id, table.format)
        ours: set[str] = set()
        for snapshots in _batches(sorted({each.snapshot_id for each in files})):
            sql = (
                "SELECT DISTINCT snapshot_id FROM system.table_commits "  # noqa: S608
                f"WHERE table_id = {quote_text(table.table_id)} AND update_source = {quote_text(FLOW)} "
                f"AND {among('snapshot_id', snapshots)}"
            )
            ours |= {row["snapshot_id"] for row in await self._rows(sql)}
        foreign: dict[str, tuple[str, ...]] = {}
        for file in sorted(files, key=lambda file: (file.partition, file.path)):
            if file.snapshot_id not in ours:
                foreign[file.partition] = (*foreign.get(file.partition, ()), file.path)
        return msgspec.structs.replace(table, foreign_files=foreign)

    async def _versioned(self, table: TableState) -> TableState:
        """A table that no pipeline has recorded: its format identifies its data."""
        if table.table_id is None or table.format is None:
            return table
        version, materials = await self._versions.versions(table.table_id, table.format)
        keys = tuple(sorted(materials))
        unknown = (None,) * len(keys)
        return msgspec.structs.replace(
            table,
            is_source=True,
            version=version,
            keys=keys,
            statuses=("COMPLETE",) * len(keys),
            materials=tuple(materials[key] for key in keys),
            input_fingerprints=unknown,
            code_fingerprints=unknown,
            made_at_ms=unknown,
        )

    async def _rows(self, sql: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = (await self._engine.query(sql, freshness=FRESH)).to_pylist()
        return rows


@dataclass
class _Records:
    """What the event tables say about some tables, by table id unless noted."""

    partitions: dict[str, RecordedPartitions] = field(default_factory=dict)
    changed: dict[str, int | None] = field(default_factory=dict)
    others: dict[str, tuple[int | None, str | None]] = field(default_factory=dict)
    failed: dict[str, list[str]] = field(default_factory=dict)  # partitions, by table name
    dynamic: dict[str, tuple[str, ...]] = field(default_factory=dict)  # values, by dimension
    tasks: dict[str, TableState] = field(default_factory=dict)  # by task name
    attempts: dict[str, LastAttempt] = field(default_factory=dict)  # by table name

    def add_attempt(self, row: dict[str, Any]) -> None:
        """Record an attempt for each of its tables whose columns differed from the result."""
        changes = json.decode(str(row["changes"]).encode(), list[ColumnChange])
        for table in dict.fromkeys(each.table for each in changes):
            self.attempts[table] = LastAttempt(
                task=row["task_id"],
                run_id=row["execution_id"],
                status=row["status"],
                ended_at_ms=row["at"],
                code_fingerprint=row["code"],
                changes=tuple(each for each in changes if each.table == table),
            )

    def add_to(self, name: str, entry: TableState) -> TableState:
        """The state of a table with all its records."""
        table_id, last_attempt = entry.table_id, self.attempts.get(name)
        if table_id is None:
            return msgspec.structs.replace(entry, last_attempt=last_attempt)
        others_at_ms, others = self.others.get(table_id, (None, None))
        table = msgspec.structs.replace(
            entry,
            last_attempt=last_attempt,
            changed_at_ms=self.changed.get(table_id),
            others_at_ms=others_at_ms,
            others=others,
        )
        partitions = self.partitions.get(table_id)
        return table if partitions is None else partitions.add_to(table)


def _batches(values: Sequence[str]) -> Iterator[Sequence[str]]:
    """As many values at a time as one query names."""
    return (values[start : start + MAX_TABLES] for start in range(0, len(values), MAX_TABLES))


def _ids(entries: dict[str, TableState]) -> list[str]:
    return sorted({entry.table_id for entry in entries.values() if entry.table_id is not None})


async def _catalog_entry(snapshot: Snapshot, name: str) -> TableState:
    """The id and format of a table; an empty state if the catalog has none of that name."""
    levels = parse_dotted(name)
    try:
        row = (await snapshot.table(TableName(levels[0], levels[1:-1], levels[-1]))).row
    except NotFound:
        return TableState()
    return TableState(
        table_id=row.table_id, format=None if row.format is None else row.format.value
    )


def _with_failures(table: TableState, failed: list[str]) -> TableState:
    """A table with a row for each failed partition that has none; a source table with data has none."""
    if table.is_source and (table.version is not None or table.keys):
        return table
    keys = tuple(sorted({*failed}.difference(table.keys)))
    unknown = (None,) * len(keys)
    return msgspec.structs.replace(
        table,
        keys=(*table.keys, *keys),
        statuses=(*table.statuses, *("FAILED",) * len(keys)),
        materials=(*table.materials, *unknown),
        input_fingerprints=(*table.input_fingerprints, *unknown),
        code_fingerprints=(*table.code_fingerprints, *unknown),
        made_at_ms=(*table.made_at_ms, *unknown),
    )
