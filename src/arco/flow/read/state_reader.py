"""The state of tables for planning: the catalog, the partitions that were recorded, and what formats tell.

Cost: one look at the catalog, up to seven questions to the SQL engine side by side, and for each table that
no pipeline makes one look at its present version.
"""

from collections.abc import Sequence
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
from arco.events.partition_value import PRESENT
from arco.flow.plan.keys import read_key, task_key
from arco.flow.read.asking import FRESH, Engine, all_rows, among, literal, milliseconds
from arco.flow.read.partitions import MOST_TABLES, Recorded, recorded
from arco.flow.read.tasks import is_task, known_tasks
from arco.flow.run.ending import CODE, COLUMN_CHANGES
from arco.flow.run.ports import Contents
from arco.flow.state import ColumnChange, LastAttempt, State, TableState

_VERSIONS_AT_ONCE = 8
_FAILED = ("FAILED", "BLOCKED")
_ENDED = ("SUCCESS", *_FAILED)
_NTH = (
    "row_number() OVER (PARTITION BY task_id "
    "ORDER BY coalesce(completed_at, started_at) DESC NULLS FIRST, execution_id DESC)"
)
_CHANGES = (("table_stats", "last_modified_at"), ("table_commits", "committed_at"))
_BY_OTHERS = f"""update_source <> {literal(FLOW)} AND changed LIKE '%"set-snapshot-ref"%'"""


class SqlStateReader:
    """Tells the state of tables by fresh SQL; `events` is the reader of what events have told."""

    def __init__(
        self, engine: Engine, catalog: SnapshotReader, events: SnapshotReader, versions: Contents
    ) -> None:
        self._engine = engine
        self._catalog = catalog
        self._events = events
        self._versions = versions
        self._tasks = catalog.store.runtime.tasks

    async def state(self, tables: Sequence[str], files_of: Sequence[str] = ()) -> State:
        """What is known now of these tables, by their full names; shorter names are those of tasks."""
        number = (await self._events.head()).number
        tasks = [name for name in tables if is_task(name)]
        places = await self._places([name for name in tables if not is_task(name)])
        facts = _Facts()
        await self._tasks.gather(
            self._read_partitions(facts, places),
            self._read_changes(facts, places),
            self._read_others(facts, places),
            self._read_failures(facts, places),
            self._read_attempts(facts, places),
            self._read_values(facts),
            self._read_tasks(facts, tasks),
        )
        known = {
            name: msgspec.structs.replace(
                facts.add_to(place), last_attempt=facts.attempts.get(name)
            )
            for name, place in places.items()
        }
        known |= facts.tasks
        strange = [name for name, table in known.items() if table.table_id and not table.keys]
        for start in range(0, len(strange), _VERSIONS_AT_ONCE):
            names = strange[start : start + _VERSIONS_AT_ONCE]
            told = await self._tasks.gather(*(self._versioned(known[name]) for name in names))
            known.update(zip(names, told, strict=True))
        for name, failed in facts.failed.items():
            known[name] = _with_failures(known[name], failed)
        for name in known.keys() & set(files_of):
            known[name] = await self._with_foreign_files(known[name])
        return State(number=number, tables=known, dynamic=facts.dynamic)

    async def _places(self, tables: Sequence[str]) -> dict[str, TableState]:
        snapshot = await self._catalog.head()
        return {name: await _place(snapshot, name) for name in tables}

    async def _read_partitions(self, facts: "_Facts", places: dict[str, TableState]) -> None:
        facts.rows = await recorded(self._engine, _ids(places))

    async def _read_changes(self, facts: "_Facts", places: dict[str, TableState]) -> None:
        """When the tables last changed, by whoever told of it."""
        ids = _ids(places)
        for start in range(0, len(ids), MOST_TABLES):
            where = among("table_id", ids[start : start + MOST_TABLES])
            sql = " UNION ALL ".join(
                f"SELECT table_id, {milliseconds(f'max({moment})')} AS at FROM system.{table} "  # noqa: S608
                f"WHERE {where} GROUP BY table_id"
                for table, moment in _CHANGES
            )
            for row in (await self._engine.query(sql, freshness=FRESH)).to_pylist():
                at, known = row["at"], facts.changed.get(row["table_id"])
                facts.changed[row["table_id"]] = max(filter(None, (at, known)), default=None)

    async def _read_others(self, facts: "_Facts", places: dict[str, TableState]) -> None:
        """When others than pipelines last wrote to the tables, and with what."""
        ids = _ids(places)
        for start in range(0, len(ids), MOST_TABLES):
            where = among("table_id", ids[start : start + MOST_TABLES])
            sql = (
                f"SELECT table_id, {milliseconds('max(committed_at)')} AS at, "  # noqa: S608
                f"last_value(engine ORDER BY committed_at) AS engine FROM system.table_commits "
                f"WHERE {where} AND {_BY_OTHERS} GROUP BY table_id"
            )
            for row in (await self._engine.query(sql, freshness=FRESH)).to_pylist():
                facts.others[row["table_id"]] = row["at"], row["engine"]

    async def _read_failures(self, facts: "_Facts", places: dict[str, TableState]) -> None:
        """Tasks that failed before there was their table; no row of a partition tells of them.

        Of each the last counts: one that was planned and has not begun is later than all that have ended.
        """
        tables, failed = list(places), among("status", _FAILED)
        for start in range(0, len(tables), MOST_TABLES):
            names = [task_key(name, "") for name in tables[start : start + MOST_TABLES]]
            select = (
                f"SELECT task_id FROM (SELECT task_id, status, {_NTH} AS nth "  # noqa: S608
                "FROM system.tasks WHERE task_id IN (SELECT task_id FROM system.tasks "
                f"WHERE table_id IS NULL AND {failed} "
                f"AND {among('split_part(task_id, chr(64), 1)', names)}))"
            )
            async for row in all_rows(self._engine, select, f"nth = 1 AND {failed}", "task_id"):
                key = read_key(row["task_id"])
                facts.failed.setdefault(key.maker, []).append(key.partition)

    async def _read_attempts(self, facts: "_Facts", places: dict[str, TableState]) -> None:
        """The last attempt for each table that is still there, if it met columns that differ."""
        tables = [name for name, place in places.items() if place.table_id is not None]
        for start in range(0, len(tables), MOST_TABLES):
            names = [task_key(name, "") for name in tables[start : start + MOST_TABLES]]
            select = (
                "SELECT task_id, execution_id, table_id, status, at, code, changes FROM ("  # noqa: S608
                f"SELECT *, {milliseconds('completed_at')} AS at, metrics['{CODE}'] AS code, "
                f"metrics['{COLUMN_CHANGES}'] AS changes, row_number() OVER (PARTITION BY "
                "split_part(task_id, chr(64), 1) ORDER BY completed_at DESC, execution_id DESC, task_id) "
                f"AS nth FROM system.tasks WHERE {among('split_part(task_id, chr(64), 1)', names)} "
                f"AND {among('status', _ENDED)} AND completed_at IS NOT NULL "
                f"AND metrics['{CODE}'] IS NOT NULL)"
            )
            async for row in all_rows(
                self._engine, select, "nth = 1 AND changes IS NOT NULL", "task_id", "execution_id"
            ):
                if row["table_id"] == places[read_key(row["task_id"]).maker].table_id:
                    facts.attempted(row)

    async def _read_tasks(self, facts: "_Facts", names: Sequence[str]) -> None:
        facts.tasks = await known_tasks(self._engine, names)

    async def _read_values(self, facts: "_Facts") -> None:
        select = "SELECT dimension, value FROM system.partition_values"
        where = f"status = {literal(PRESENT)}"
        values: dict[str, list[str]] = {}
        async for row in all_rows(self._engine, select, where, "dimension", "value"):
            values.setdefault(row["dimension"], []).append(row["value"])
        facts.dynamic = {name: tuple(each) for name, each in values.items()}

    async def _with_foreign_files(self, table: TableState) -> TableState:
        """A table of a pipeline with the files that others have added to its partitions.

        A file is the pipeline's if the table has the snapshot that added it and that names an attempt, or
        if the commit of that snapshot was recorded as the pipeline's: snapshots are expired, records stay.
        """
        if table.table_id is None or table.format is None or table.others_at_ms is None:
            return table
        files = await self._versions.unproven_files(table.table_id, table.format)
        snapshots = sorted({each.snapshot_id for each in files})
        ours: set[str] = set()
        for start in range(0, len(snapshots), MOST_TABLES):
            sql = (
                "SELECT DISTINCT snapshot_id FROM system.table_commits "  # noqa: S608
                f"WHERE table_id = {literal(table.table_id)} AND update_source = {literal(FLOW)} "
                f"AND {among('snapshot_id', snapshots[start : start + MOST_TABLES])}"
            )
            rows = (await self._engine.query(sql, freshness=FRESH)).to_pylist()
            ours |= {row["snapshot_id"] for row in rows}
        foreign: dict[str, tuple[str, ...]] = {}
        for each in sorted(files, key=lambda file: (file.partition, file.path)):
            if each.snapshot_id not in ours:
                foreign[each.partition] = (*foreign.get(each.partition, ()), each.path)
        return msgspec.structs.replace(table, foreign_files=foreign)

    async def _versioned(self, table: TableState) -> TableState:
        """A table that no pipeline has told of: what its format says about its data."""
        if table.table_id is None or table.format is None:
            return table
        version, materials = await self._versions.versions(table.table_id, table.format)
        keys = tuple(sorted(materials))
        nothing = (None,) * len(keys)
        return msgspec.structs.replace(
            table,
            is_source=True,
            version=version,
            keys=keys,
            statuses=("COMPLETE",) * len(keys),
            materials=tuple(materials[key] for key in keys),
            input_fingerprints=nothing,
            code_fingerprints=nothing,
            made_at_ms=nothing,
        )


@dataclass
class _Facts:
    """What was found about some tables; by id, and of those that are not there by name."""

    rows: dict[str, Recorded] = field(default_factory=dict)
    changed: dict[str, int | None] = field(default_factory=dict)
    others: dict[str, tuple[int | None, str | None]] = field(default_factory=dict)
    failed: dict[str, list[str]] = field(default_factory=dict)  # keys, by the name of the table
    dynamic: dict[str, tuple[str, ...]] = field(default_factory=dict)
    tasks: dict[str, TableState] = field(default_factory=dict)
    attempts: dict[str, LastAttempt] = field(default_factory=dict)  # by the name of the table

    def attempted(self, row: dict[str, Any]) -> None:
        """Take note of an attempt, for each of its tables whose columns it met otherwise."""
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

    def add_to(self, place: TableState) -> TableState:
        """A table with all that is known of it."""
        if place.table_id is None:
            return place
        others_at_ms, others = self.others.get(place.table_id, (None, None))
        table = msgspec.structs.replace(
            place,
            changed_at_ms=self.changed.get(place.table_id),
            others_at_ms=others_at_ms,
            others=others,
        )
        rows = self.rows.get(place.table_id)
        return table if rows is None else rows.state(table)


def _ids(places: dict[str, TableState]) -> list[str]:
    return sorted({place.table_id for place in places.values() if place.table_id is not None})


async def _place(snapshot: Snapshot, name: str) -> TableState:
    """A table of the catalog, or that there is none."""
    levels = parse_dotted(name)
    try:
        row = (await snapshot.table(TableName(levels[0], levels[1:-1], levels[-1]))).row
    except NotFound:
        return TableState()
    return TableState(
        table_id=row.table_id, format=None if row.format is None else row.format.value
    )


def _with_failures(table: TableState, failed: list[str]) -> TableState:
    """A table with a row for each partition that failed and has none; of others' data nobody failed."""
    if table.is_source and (table.version is not None or table.keys):
        return table
    keys = tuple(sorted({*failed}.difference(table.keys)))
    nothing = (None,) * len(keys)
    return msgspec.structs.replace(
        table,
        keys=(*table.keys, *keys),
        statuses=(*table.statuses, *("FAILED",) * len(keys)),
        materials=(*table.materials, *nothing),
        input_fingerprints=(*table.input_fingerprints, *nothing),
        code_fingerprints=(*table.code_fingerprints, *nothing),
        made_at_ms=(*table.made_at_ms, *nothing),
    )
