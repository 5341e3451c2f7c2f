"""Clearing partitions: the commit that removes their rows decides, and events follow it (ADR 77).

Before the commit an event records that a clearing has begun, and at which version. The commit names the
clearing as its attempt (P35). If the process dies before it has recorded the outcome, the table's chain
shows it: the next read of the state, by a plan or a run, finds the commit and records the partitions. So
planning never takes removed rows for existing ones, nor existing rows for removed ones.
"""

import re
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ulid import ULID

from arco.catalog.publication import (
    WHOLE_TABLE,
    DispatchedAttempt,
    NumberedPublication,
    published_by_task,
)
from arco.core.clock import utc
from arco.core.errors import ArcoError, NotFound
from arco.core.runtime import Runtime
from arco.core.sql_literal import quote_text
from arco.events.partition import PartitionCleared
from arco.events.task import TaskCompleted, TaskStarted
from arco.flow.coordinator.events import limit_message, run_event
from arco.flow.coordinator.messages import TaskStatus
from arco.flow.coordinator.ports import ErrorReporter, EventWriter, RunEvent
from arco.flow.plan.event_query import (
    FRESH,
    CallerEventEngine,
    EventEngine,
    SharedEventEngine,
    milliseconds,
)
from arco.flow.plan.table_state import PlanningState, StateReader
from arco.storage.chain_gc import DEFAULT_RETENTION_MS

TASK_NAME = "arco partitions clear"

_TASK_ID = re.compile(r"clear/([0-9]{1,18})")

_BEGUN = (
    f"SELECT execution_id, task_id, table_id, {milliseconds('started_at')} AS started_at_ms "  # noqa: S608
    f"FROM system.tasks WHERE task_name = {quote_text(TASK_NAME)} AND status = 'RUNNING' "
    "AND table_id IS NOT NULL "
    "ORDER BY execution_id LIMIT 1000"
)


@dataclass(frozen=True)
class Clearing:
    """One call of `arco partitions clear`; `number` was the head of the table's chain when it began."""

    clearing_id: str  # a ULID
    table_id: str
    number: int

    @property
    def task_id(self) -> str:
        """The clearing as a task; it names the version, so that the chain is searched from there."""
        return f"clear/{self.number}"

    @property
    def task(self) -> str:
        """The clearing as versions name it."""
        return f"{self.clearing_id}/{self.task_id}"

    def attempt(self, keys: tuple[str, ...], now_ms: int) -> DispatchedAttempt:
        """The attempt that the commit names: attempts at these partitions lose them (P35)."""
        return DispatchedAttempt(
            attempt_id=bytes(ULID.from_str(self.clearing_id)).hex(),
            task=self.task,
            dispatched_at_number=self.number,
            dispatched_at_ms=now_ms,
            partitions=WHOLE_TABLE if "" in keys else keys,
        )

    def begun(self, at_ms: int) -> RunEvent:
        """The commit will be made; to be recorded before it."""
        started = TaskStarted(
            execution_id=self.clearing_id,
            task_id=self.task_id,
            task_name=TASK_NAME,
            table_id=self.table_id,
            started_at=utc(at_ms),
        )
        return run_event("task_started", f"begun:{self.task}", self.clearing_id, started)

    def cleared(self, keys: Sequence[str], version: int, at_ms: int) -> Iterator[RunEvent]:
        """The commit was made as this version."""
        for index, key in enumerate(keys):
            payload = PartitionCleared(
                table_id=self.table_id,
                partition_key=key,
                version=version,
                execution_id=self.clearing_id,
            )
            event_key = f"cleared:{self.task}:{index}"
            yield run_event("partition_cleared", event_key, self.clearing_id, payload)
        yield self._ended(TaskStatus.SUCCESS, None, at_ms, version)

    def refused(self, reason: str, at_ms: int) -> RunEvent:
        """The commit was not made, and cannot be made any more."""
        return self._ended(TaskStatus.FAILED, reason, at_ms)

    def _ended(
        self, status: TaskStatus, error: str | None, at_ms: int, version: int | None = None
    ) -> RunEvent:
        ended = TaskCompleted(
            execution_id=self.clearing_id,
            task_id=self.task_id,
            task_name=TASK_NAME,
            table_id=self.table_id,
            status="SUCCESS" if status is TaskStatus.SUCCESS else "FAILED",
            published_version=version,
            completed_at=utc(at_ms),
            error_message=limit_message(error),
        )
        return run_event("task_completed", f"ended:{self.task}", self.clearing_id, ended)


class TablePublications(Protocol):
    """Reads which attempts have published to a table."""

    async def publications(self, table_id: str, since: int) -> Sequence[NumberedPublication]:
        """All publications and fences above a number; `AttemptFenced` if some are collected."""


class ClearingStateReader:
    """A `StateReader` that first records the clearings whose process died after their commit.

    Cost: one query beside those of the state, and nothing else unless a clearing has no recorded end.
    """

    def __init__(
        self,
        states: StateReader,
        engine: SharedEventEngine,
        tables: TablePublications,
        events: EventWriter,
        *,
        runtime: Runtime,
        on_error: ErrorReporter,
        retention_ms: int = DEFAULT_RETENTION_MS,
    ) -> None:
        self._states = states
        self._engine = engine
        self._tables = tables
        self._events = events
        self._runtime = runtime
        self._report_error = on_error
        self._retention_ms = retention_ms

    async def state(
        self, tables: Sequence[str], files_of: Sequence[str] = (), *, caller: str | None = None
    ) -> PlanningState:
        """The state of these tables now."""
        reads: tuple[Coroutine[Any, Any, Any], ...] = (
            self._states.state(tables, files_of, caller=caller),
            self._record_ends(CallerEventEngine(self._engine, caller)),
        )
        state, has_changed = await self._runtime.tasks.gather(*reads)
        if has_changed:
            return await self._states.state(tables, files_of, caller=caller)
        planning_state: PlanningState = state
        return planning_state

    async def _record_ends(self, engine: EventEngine) -> bool:
        """Record the end of each clearing that has one; whether partitions were cleared."""
        has_changed = False
        rows: list[dict[str, Any]] = (await engine.query(_BEGUN, freshness=FRESH)).to_pylist()
        for row in rows:
            number = _TASK_ID.fullmatch(row["task_id"])
            if number is None:
                continue  # an event of another program, under the same name
            clearing = Clearing(row["execution_id"], row["table_id"], int(number[1]))
            try:
                publication = await self._publication(clearing)
            except NotFound:  # the table was dropped, and its partitions with it
                await self._end(clearing, "the table was dropped")
            except ArcoError as problem:
                self._report_error(
                    "finding out whether partitions were cleared",
                    problem,
                    table=clearing.table_id,
                    clearing=clearing.clearing_id,
                )
            else:
                if publication is not None:
                    await self._record(clearing, publication)
                    has_changed = True
                elif self._is_too_old(row["started_at_ms"]):
                    await self._end(clearing, "its process ended before it had removed anything")
        return has_changed

    async def _publication(self, clearing: Clearing) -> NumberedPublication | None:
        """The commit of a clearing, if it was made."""
        later = await self._tables.publications(clearing.table_id, clearing.number)
        return published_by_task(clearing.task, later)

    async def _record(self, clearing: Clearing, commit: NumberedPublication) -> None:
        keys = commit.publication.partitions or ("",)
        now_ms = self._runtime.clock.now_ms()
        await self._events.append([*clearing.cleared(keys, commit.number, now_ms)])

    async def _end(self, clearing: Clearing, reason: str) -> None:
        await self._events.append([clearing.refused(reason, self._runtime.clock.now_ms())])

    def _is_too_old(self, started_at_ms: int | None) -> bool:
        """Whether its commit would be refused (P35), so that there will be none."""
        age_ms = self._runtime.clock.now_ms() - (started_at_ms or 0)
        return age_ms > self._retention_ms * 3 // 4
