"""Prepares tasks before they are dispatched: table heads, fences, outputs that exist already, and inputs.

The first attempt at a task needs no fence if no other attempt may still be writing its partition. Any
other attempt fences first, which shows the outputs that earlier attempts have published (P35). Outputs
that another run has made meanwhile, by the same code from the same data, exist already too, and so do
rows that a run has appended of which this one is the retry. They are not published again; if all exist,
there is nothing to run.
"""

from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from arco.catalog.publication import WHOLE_TABLE, DispatchedAttempt, NumberedPublication
from arco.core.errors import ArcoError, Conflict, Invalid, Unavailable, Unknown
from arco.flow.coordinator.active_run import ActiveRun
from arco.flow.coordinator.attempt_events import (
    OutputPartition,
    PublishedOutput,
    fingerprint_inputs,
)
from arco.flow.coordinator.data_versions import DataVersions, LastPublication
from arco.flow.coordinator.leases import LockRequest, find_lease_hint, restore_inputs
from arco.flow.coordinator.messages import TaskInput, TaskOutput
from arco.flow.coordinator.ports import Fences, TableHead
from arco.flow.coordinator.run_state import (
    attempt_id_of,
    attempt_ids_of,
    attempt_number,
    max_attempts,
)
from arco.flow.coordinator.state import CoordinatorState
from arco.flow.plan.plan import Maker, PlanTarget, Reason
from arco.storage.store import Store

T = TypeVar("T")

ASSET = "asset"

_APPEND = "append"
_TRANSIENT = (Unavailable, Unknown, Conflict)


@dataclass(frozen=True)
class SelectedTask:
    """A task that is being dispatched."""

    run: ActiveRun
    key: str

    @property
    def partition(self) -> str:
        return self.run.state.tasks[self.key].task.partition

    @property
    def maker(self) -> Maker:
        return self.run.maker(self.key)

    @property
    def attempt(self) -> int:
        return self.run.state.tasks[self.key].attempt + 1

    @property
    def attempt_id(self) -> str:
        return attempt_id_of(self.run.run_id, self.key, self.attempt)


@dataclass(frozen=True)
class PreparedTask:
    """A task that can be dispatched; `published` are outputs of earlier attempts at it."""

    task: SelectedTask
    inputs: tuple[TaskInput, ...]
    outputs: tuple[TaskOutput, ...]
    published: tuple[PublishedOutput, ...] = ()

    @property
    def kept_outputs(self) -> tuple[OutputPartition, ...]:
        """The outputs that must not be published again."""
        partition = self.task.partition
        return tuple(
            OutputPartition(each.table, each.table_id, partition)
            for each in self.outputs
            if each.is_made
        )


@dataclass(frozen=True)
class FinishedTask:
    """A task whose outputs were all published by earlier attempts at it."""

    task: SelectedTask
    published: tuple[PublishedOutput, ...]


@dataclass(frozen=True)
class RedundantTask:
    """A task whose outputs all exist, some of them not by attempts at it."""

    task: SelectedTask
    kept_outputs: tuple[OutputPartition, ...]
    published: tuple[PublishedOutput, ...] = ()


@dataclass(frozen=True)
class FailedTask:
    """A task that can never be dispatched."""

    task: SelectedTask
    error: ArcoError


@dataclass(frozen=True)
class DeferredTask:
    """A task that cannot be dispatched now, because of a transient error."""

    task: SelectedTask
    error: ArcoError


PreparationResult = PreparedTask | FinishedTask | RedundantTask | FailedTask | DeferredTask


class TaskPreparer:
    """Prepares several tasks at once."""

    def __init__(
        self, state: CoordinatorState, store: Store, fences: Fences, versions: DataVersions
    ) -> None:
        self._state = state
        self._store = store
        self._fences = fences
        self._versions = versions

    async def prepare(self, tasks: Sequence[SelectedTask]) -> list[PreparationResult]:
        """Prepare each task; what several of them need is read once."""
        if not any(_has_tables(each) for each in tasks):
            return [PreparedTask(each, (), ()) for each in tasks]
        tables = {target.table for each in tasks for target in each.maker.targets}
        heads = dict(zip(tables, await self._gather(map(self._fences.head, tables)), strict=True))
        inputs = await self._gather(self._inputs(each) for each in tasks)
        pairs = zip(tasks, inputs, strict=True)
        return await self._state.tasks.gather(*(self._prepare_one(*each, heads) for each in pairs))

    async def find_published(self, task: SelectedTask) -> tuple[PublishedOutput, ...]:
        """What attempts at a task have published; they cannot publish the rest any more."""
        published: list[PublishedOutput] = []
        for index, target in enumerate(task.maker.targets):
            head = await self._fences.head(target.table)
            base = await self._publishing_base(task, target, head)
            if isinstance(base, NumberedPublication):
                published.append(await self._published_output(task, index, head, base))
        return tuple(published)

    async def _gather(self, work: Iterable[Coroutine[Any, Any, T]]) -> list[T | ArcoError]:
        """Results, or errors in their places: an error of one task does not affect the others."""
        return await self._state.tasks.gather(*(_or_error(each) for each in work))

    async def _inputs(self, task: SelectedTask) -> tuple[TaskInput, ...]:
        run = task.run
        while run.versions is None:
            snapshot = await self._versions.load(run.plan)
            run.versions = snapshot if self._versions.is_complete(snapshot) else None
        planned = run.state.tasks[task.key].task
        return await self._versions.inputs(run.plan, run.versions, planned)

    async def _prepare_one(
        self,
        task: SelectedTask,
        inputs: tuple[TaskInput, ...] | ArcoError,
        heads: Mapping[str, TableHead | ArcoError | None],
    ) -> PreparationResult:
        try:
            if isinstance(inputs, ArcoError):
                raise inputs
            return await self._prepare_outputs(task, inputs, heads)
        except _TRANSIENT as error:
            return DeferredTask(task, error)
        except ArcoError as error:
            return FailedTask(task, error)

    async def _prepare_outputs(
        self,
        task: SelectedTask,
        inputs: tuple[TaskInput, ...],
        heads: Mapping[str, TableHead | ArcoError | None],
    ) -> PreparedTask | FinishedTask | RedundantTask:
        existing = self._existing_outputs(task, inputs)
        outputs: list[TaskOutput] = []
        published: list[PublishedOutput] = []
        for index, target in enumerate(task.maker.targets):
            head = heads[target.table]
            if isinstance(head, ArcoError):
                raise head
            base = await self._publishing_base(task, target, head)
            is_made = target.table in existing
            if isinstance(base, NumberedPublication):
                published.append(await self._published_output(task, index, head, base))
                is_made, base = True, base.number - 1
            elif head is not None and not is_made:
                is_made, base = await self._appended_before(task, target, head, base)
            replaces = not is_made and self._replaces(task, target)
            now_ms = self._state.clock.now_ms()
            output = _output(task, target, head, base, now_ms, is_made=is_made)
            outputs.append(msgspec.structs.replace(output, replaces=replaces))
        prepared = PreparedTask(task, inputs, tuple(outputs), tuple(published))
        if not outputs or len(prepared.kept_outputs) < len(outputs):
            return prepared
        if len(published) == len(outputs):
            return FinishedTask(task, prepared.published)
        return RedundantTask(task, prepared.kept_outputs, prepared.published)

    def _existing_outputs(self, task: SelectedTask, inputs: tuple[TaskInput, ...]) -> set[str]:
        """The outputs that other runs have made since the plan, by the same code from the same data.

        Rows must not be appended twice, so for mode append the time does not matter, and what an earlier
        run of a retry has published exists even if code or data have changed since.
        """
        run, maker, snapshot = task.run, task.maker, task.run.versions
        if snapshot is None or maker.kind != ASSET:
            return set()
        last = {
            target.table: self._versions.last(snapshot, target.table, task.partition)
            for target in maker.targets
        }
        existing: set[str] = set()
        if appends_rows(maker):
            earlier = _earlier_attempts(task)
            existing = {table for table, each in last.items() if each.material in earlier}
        fingerprint = fingerprint_inputs(maker.code_fingerprint, inputs)
        if fingerprint is None:
            return existing
        reason = run.state.tasks[task.key].task.reason
        return existing | {
            table
            for table, each in last.items()
            if each.input_fingerprint == fingerprint and _is_recent(each, reason, maker)
        }

    def _replaces(self, task: SelectedTask, target: PlanTarget) -> bool:
        """Whether rows that were appended before are to be removed; `Invalid` if they would be doubled.

        The planner has checked what was appended when the plan was made. Here, what other runs have
        appended since is known too.
        """
        run, snapshot = task.run, task.run.versions
        if snapshot is None or task.maker.kind != ASSET or target.mode != _APPEND:
            return False
        last = self._versions.last(snapshot, target.table, task.partition)
        if last.material is None or task.key in run.append_again:
            return False
        if target.on_change != "replace":
            raise Invalid(
                f"another run has appended {task.key} to {target.table} since this run was planned, from "
                "other code or data, and its rows would be added a second time: plan again with `arco run`,"
                " and pass --append-again if that is what you want"
            )
        return True

    async def _published_output(
        self, task: SelectedTask, index: int, head: TableHead | None, version: NumberedPublication
    ) -> PublishedOutput:
        """A published output; its version names code and inputs, or else the plan and the lease hint do."""
        run, publication = task.run, version.publication
        code, fingerprint = publication.code, publication.made_of
        if code is None or fingerprint is None:
            hint = await find_lease_hint(self._store, publication.attempt_id)
            planned = run.state.tasks[task.key].task
            inputs = restore_inputs(run.plan, planned, None if hint is None else hint.inputs)
            code = task.maker.code_fingerprint
            fingerprint = fingerprint_inputs(code, inputs)
        table, table_id = task.maker.targets[index].table, None if head is None else head.table_id
        earlier = attempt_number(publication.attempt_id, run.run_id, task.key, task.attempt - 1)
        return PublishedOutput(
            index,
            OutputPartition(table, table_id, task.partition),
            run.attempt(task.key, earlier or task.attempt),
            version.number,
            code,
            fingerprint,
        )

    async def _publishing_base(
        self, task: SelectedTask, target: PlanTarget, head: TableHead | None
    ) -> NumberedPublication | int:
        """The number above which an attempt may publish, or the publication of an earlier attempt."""
        run, snapshot = task.run, task.run.versions
        if head is None:
            return -1
        run.table_ids[target.table] = head.table_id
        if task.maker.kind != ASSET:
            return head.number  # what the code of a task writes itself cannot be fenced
        request = LockRequest(target.table, task.partition)
        in_doubt = self._state.locks.is_unfenced(request) or (
            snapshot is not None and (request.table, request.partition) in snapshot.unsettled
        )
        if task.attempt == 1 and not in_doubt:
            return head.number
        base = await self._fence(task, target, head, run.run_id)
        self._state.locks.mark_fenced(request)
        return base

    async def _appended_before(
        self, task: SelectedTask, target: PlanTarget, head: TableHead, base: int
    ) -> tuple[bool, int]:
        """Whether an earlier run of a retry has appended its rows, and the number to publish above.

        Other runs may have appended since, so the last publication does not show it. What those earlier
        runs have not published they cannot publish any more.
        """
        if task.maker.kind != ASSET or target.mode != _APPEND:
            return False, base
        for run_id in task.run.stored.request.after:
            fenced = await self._fence(task, target, head, run_id)
            if isinstance(fenced, NumberedPublication):
                return True, base
            base = fenced
        return False, base

    async def _fence(
        self, task: SelectedTask, target: PlanTarget, head: TableHead, run_id: str
    ) -> NumberedPublication | int:
        """The publication of a run for the task, or the number of a new fence."""
        stored = task.run.stored.bases.get(target.table)
        since = stored.number if stored is not None and stored.table_id == head.table_id else -1
        attempt = _output(task, target, head, head.number, self._state.clock.now_ms()).attempt
        fence = msgspec.structs.replace(attempt, task=_task_name(run_id, task.key))
        return await self._fences.fence(head.table_id, fence, since)


def appends_rows(maker: Maker) -> bool:
    """Whether materializing a partition twice would append its rows twice."""
    return maker.kind == ASSET and any(target.mode == _APPEND for target in maker.targets)


def _task_name(run_id: str, key: str) -> str:
    """A task of a run, as versions name it."""
    return f"{run_id}/{key}"


def _earlier_attempts(task: SelectedTask) -> set[str]:
    """The attempts of the earlier runs of which this one is the retry."""
    count = max_attempts(task.maker.retry)
    return {
        attempt_id
        for run_id in task.run.stored.request.after
        for attempt_id in attempt_ids_of(run_id, task.key, count)
    }


def _is_recent(last: LastPublication, reason: Reason, maker: Maker) -> bool:
    """Whether an output with the same code and inputs makes the task redundant.

    If it existed when the plan was made, it is too old for the plan, or an attempt to replace it failed.
    """
    if reason is Reason.FORCED:
        return False
    if last.is_new:
        return True
    return reason is not Reason.FRESHNESS and (reason is not Reason.FAILED or appends_rows(maker))


async def _or_error(work: Coroutine[Any, Any, T]) -> T | ArcoError:
    try:
        return await work
    except ArcoError as error:
        return error


def _has_tables(task: SelectedTask) -> bool:
    """Whether there is anything to prepare; many tasks have neither inputs nor outputs."""
    return bool(task.run.state.tasks[task.key].task.inputs or task.maker.targets)


def _output(
    task: SelectedTask,
    target: PlanTarget,
    head: TableHead | None,
    number: int,
    now_ms: int,
    *,
    is_made: bool = False,
) -> TaskOutput:
    partition = task.partition
    whole_table = not partition or target.mode == "replace"
    return TaskOutput(
        table=target.table,
        table_id=None if head is None else head.table_id,
        attempt=DispatchedAttempt(
            attempt_id=task.attempt_id,
            task=_task_name(task.run.run_id, task.key),
            dispatched_at_number=number,
            dispatched_at_ms=now_ms,
            partitions=WHOLE_TABLE if whole_table else (partition,),
        ),
        is_made=is_made,
    )
