"""Runs and partitions folded from the ledger in process: readers without SQL."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from arco.flow.coordinator.attempt_events import failed_attempts
from arco.flow.coordinator.messages import RunStatus, TaskStatus
from arco.flow.coordinator.ports import StoredRun, StoredTask
from arco.flow.plan.table_state import PlanningState, TableState
from arco.fold.fold import fold
from arco.fold.tier2 import EXECUTIONS_DOMAIN, TIER2
from arco.ledger.stream import Watermark
from arco.query.ledger_tail import LedgerTailReader
from arco.query.limits import QueryLimits
from arco.query.system_tables import DomainTable as StateTable
from arco.storage.store import Store
from tests.query.workers import tail_rows

LIMITS = QueryLimits(fresh_segments=1_000_000, fresh_events=10_000_000, fresh_bytes=1 << 30)


class LedgerReader:
    """A `StateReader` and a `RunReader`; `ids` has the tables that exist, by name."""

    def __init__(self, store: Store, ids: dict[str, str], sources: frozenset[str] = frozenset()):
        self._tails = {name: LedgerTailReader(store, name, LIMITS) for name in TIER2}
        self._ids = ids
        self._sources = sources

    async def rows(self, table: str, domain: str = EXECUTIONS_DOMAIN) -> list[dict[str, Any]]:
        tail = await self._tails[domain].since(Watermark(), {})
        declared = TIER2[domain][table]
        folded = fold(declared, tail_rows(tail, StateTable(domain, declared)))
        rows: list[dict[str, Any]] = folded.to_pylist()
        return rows

    async def state(
        self, tables: Sequence[str], files_of: Sequence[str] = (), *, caller: str | None = None
    ) -> PlanningState:
        rows = await self.rows("partitions")
        return PlanningState(number=0, tables={name: self._table(name, rows) for name in tables})

    async def unfinished(self) -> tuple[StoredRun, ...]:
        return tuple(each for each in await self._runs() if not each.is_over)

    async def run(self, run_id: str, *, caller: str | None = None) -> StoredRun | None:
        return next((each for each in await self._runs() if each.run_id == run_id), None)

    def _table(self, name: str, rows: list[dict[str, Any]]) -> TableState:
        mine = [row for row in rows if row["table_id"] == self._ids.get(name)]
        return TableState(
            table_id=self._ids.get(name),
            format="PARQUET",
            keys=tuple(row["partition_key"] for row in mine),
            statuses=tuple(row["status"] for row in mine),
            materials=tuple(row["materialization_id"] for row in mine),
            input_fingerprints=tuple(row["input_fingerprint"] for row in mine),
            code_fingerprints=tuple(row["code_fingerprint"] for row in mine),
            made_at_ms=tuple(_ms(row["last_successful_run"]) for row in mine),
            is_source=name in self._sources,
        )

    async def _runs(self) -> list[StoredRun]:
        tasks = await self.rows("tasks")
        return [
            StoredRun(
                run_id=row["execution_id"],
                status=RunStatus(row["status"]),
                is_over=row["completed_at"] is not None,
                completed_at_ms=_ms(row["completed_at"]),
                error=row["error_message"],
                tasks=tuple(
                    _task(each) for each in tasks if each["execution_id"] == row["execution_id"]
                ),
            )
            for row in await self.rows("executions")
        ]


def _task(row: dict[str, Any]) -> StoredTask:
    return StoredTask(
        key=row["task_id"],
        status=TaskStatus(row["status"]),
        attempt=row["attempt"],
        worker=row["worker"],
        error=row["error_message"],
        started_at_ms=_ms(row["started_at"]),
        completed_at_ms=_ms(row["completed_at"]),
        rows_written=row["rows_written"],
        failures=failed_attempts(row["metrics"]),
    )


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1_000)
