"""Starts runs: claims the run key, stores the plan, appends the events, and only then starts the run.

Each step can be repeated, so a client without an answer submits again with the same key and gets the same
run.

A retry is a new run of what a run has not made. Runs and their retries form a tree, and rows that any of
them has appended must not be appended again. So a retry comes after all of them (`after`), and while one
of them is active no other starts.
"""

from collections.abc import Sequence
from typing import get_args

import msgspec

from arco.core.errors import Invalid
from arco.core.ids import new_ulid
from arco.events.execution import TriggerType
from arco.flow.coordinator.active_run import ActiveRun
from arco.flow.coordinator.data_versions import DataVersions
from arco.flow.coordinator.events import MAX_LABEL_CHARS, caused_by, run_submitted
from arco.flow.coordinator.messages import RunRequest, TaskStatus
from arco.flow.coordinator.plan_store import PlanStore, RunClaim, StoredPlan, TableBase, check_plan
from arco.flow.coordinator.ports import EventWriter, Fences, nothing_to_retry, run_not_over
from arco.flow.coordinator.recovery import RunRecovery
from arco.flow.coordinator.run_state import RunState
from arco.flow.coordinator.state import CoordinatorState
from arco.flow.plan.plan import Plan, restrict_plan


class RunSubmission:
    """Starts runs."""

    def __init__(
        self,
        state: CoordinatorState,
        plans: PlanStore,
        *,
        recovery: RunRecovery,
        events: EventWriter,
        fences: Fences,
        versions: DataVersions,
    ) -> None:
        self._state = state
        self._plans = plans
        self._recovery = recovery
        self._events = events
        self._fences = fences
        self._versions = versions

    async def submit(
        self, request: RunRequest, *, caller: str | None = None
    ) -> tuple[ActiveRun, bool]:
        """The run of a request, and whether it starts now; `caller` as in `RunReader`."""
        _check_request(request)
        async with self._state.keyed_lock.hold(f"key/{request.run_key}"):
            return await self._submit(request, caller)

    async def _submit(self, request: RunRequest, caller: str | None) -> tuple[ActiveRun, bool]:
        runtime = self._state.runtime
        own_claim = RunClaim(
            create_id=new_ulid(runtime),
            run_key=request.run_key,
            run_id=new_ulid(runtime),
            plan_id=request.plan.plan_id,
            requested_at_ms=runtime.clock.now_ms(),
        )
        claim = await self._plans.claim(own_claim)
        if claim.plan_id != own_claim.plan_id:
            raise Invalid(
                f"run key {request.run_key!r} belongs to another plan: choose another key"
            )
        if claim.run_id != own_claim.run_id:
            run = await self._recovery.find(claim.run_id, caller=caller)
            if run is not None and (run.state.is_over or run.run_id in self._state.runs):
                return run, False
            # It was never started here, so its events are appended again.
        return await self._start(claim, request, caller), True

    async def _start(self, claim: RunClaim, request: RunRequest, caller: str | None) -> ActiveRun:
        state = self._state
        snapshot = await self._versions.load(request.plan, caller=caller)
        stored = await self._plans.create(
            StoredPlan(
                create_id=new_ulid(state.runtime),
                run_id=claim.run_id,
                requested_at_ms=claim.requested_at_ms,
                bases=await self._bases(request, caller),
                request=request,
                keeper=state.process if request.worker in state.local_workers else "",
            )
        )
        table_ids = {table: base.table_id for table, base in stored.bases.items()}
        now_ms = state.clock.now_ms()
        events = run_submitted(claim.run_id, stored.request, table_ids, now_ms)
        await self._events.append(caused_by(caller, events))
        run = ActiveRun(stored, RunState(stored.request.plan), table_ids=table_ids)
        if self._versions.is_complete(snapshot):  # else it is read again when first needed
            run.versions = snapshot
        state.runs[run.run_id] = run
        state.record_contact(run.worker)
        state.enqueue(run, run.state.start())
        return run

    async def _bases(self, request: RunRequest, caller: str | None) -> dict[str, TableBase]:
        """The heads above which the run publishes, and the earlier runs of which it is the retry."""
        makers = request.plan.makers
        names = sorted({target.table for maker in makers for target in maker.targets})
        heads = await self._state.tasks.gather(*(self._fences.head(name) for name in names))
        bases = {
            name: TableBase(table_id=head.table_id, number=head.number)
            for name, head in zip(names, heads, strict=True)
            if head is not None
        }
        if not request.after:
            return bases
        return await self._first_bases(request.after[0], bases, caller)

    async def _first_bases(
        self, first_run_id: str, bases: dict[str, TableBase], caller: str | None
    ) -> dict[str, TableBase]:
        """The bases of the first of several runs; -1 for a table that it did not have."""
        run = await self._recovery.find(first_run_id, caller=caller)
        first = {} if run is None else run.stored.bases
        return {
            name: first[name]
            if name in first and first[name].table_id == base.table_id
            else TableBase(table_id=base.table_id, number=-1)
            for name, base in bases.items()
        }


class RunRetries:
    """Builds the requests of retries."""

    def __init__(self, plans: PlanStore, recovery: RunRecovery) -> None:
        self._plans = plans
        self._recovery = recovery

    async def request(
        self, run: ActiveRun, worker: str, plan: Plan | None = None, *, caller: str | None = None
    ) -> RunRequest:
        """The request for what an ended run has not made; the last retry again if that is active.

        `plan` is a new plan of the rest; by default it is cut out of the run's own. `caller` as in
        `RunReader`.
        """
        rest = _rest_request(run, worker, plan)
        claims, retries = await self._claims(run.run_id), await self._retries(rest.after)
        number = len(claims) + 1
        if claims and claims[-1].plan_id == rest.plan.plan_id:
            last = await self._recovery.find(claims[-1].run_id, caller=caller)
            if last is None or not last.state.is_over:
                number = len(claims)  # the same retry was requested before
                retries.remove(claims[-1].run_id)
        for run_id in retries:
            retry = await self._recovery.find(run_id, caller=caller)
            if retry is not None and not retry.state.is_over:
                raise run_not_over(run_id)
        key = f"retry:{run.run_id}:{number}"
        return msgspec.structs.replace(rest, run_key=key, after=(*rest.after, *retries))

    async def _retries(self, run_ids: Sequence[str]) -> list[str]:
        """All retries of these runs, the retries of those, and so on."""
        family = [*run_ids]
        for run_id in family:  # which grows
            claims = await self._claims(run_id)
            family += [each.run_id for each in claims if each.run_id not in family]
        return family[len(run_ids) :]

    async def _claims(self, run_id: str) -> list[RunClaim]:
        """The claims of the retries of a run, in order."""
        claims: list[RunClaim] = []
        while claim := await self._plans.find_claim(f"retry:{run_id}:{len(claims) + 1}"):
            claims.append(claim)
        return claims


def _rest_request(run: ActiveRun, worker: str, plan: Plan | None) -> RunRequest:
    """The request for what a run and its earlier runs have not made."""
    tasks = run.state.tasks.items()
    rest = {key for key, task in tasks if task.status is not TaskStatus.SUCCESS}
    request = run.stored.request
    if not rest:
        raise nothing_to_retry(run.run_id)
    if plan is None:
        plan = restrict_plan(request.plan, rest)
    _check_retry_plan(run, plan, rest)
    return msgspec.structs.replace(
        request, plan=plan, worker=worker, after=(*request.after, run.run_id)
    )


def _check_retry_plan(run: ActiveRun, plan: Plan, rest: set[str]) -> None:
    """`Invalid` if a plan is not one of what a run has left undone."""
    if plan.project != run.plan.project:
        raise Invalid(
            f"run {run.run_id} is one of project {run.plan.project!r}, and the plan to retry it with one "
            f"of {plan.project!r}"
        )
    if not plan.tasks:
        raise Invalid(f"the plan to retry run {run.run_id} with has no tasks")
    for task in plan.tasks:
        if task.key not in rest:
            raise Invalid(
                f"the plan to retry run {run.run_id} with has the task {task.key}, which that run has "
                "made or never had: plan only what is left of it"
            )


def _check_request(request: RunRequest) -> None:
    if not 0 < len(request.run_key) <= MAX_LABEL_CHARS or "\0" in request.run_key:
        raise Invalid(f"a run key has 1 to {MAX_LABEL_CHARS} characters")
    for name in (request.worker, request.triggered_by or ""):
        if len(name) > MAX_LABEL_CHARS:
            raise Invalid(f"a name has at most {MAX_LABEL_CHARS} characters: {name[:40]!r}")
    if request.trigger_type not in get_args(TriggerType):
        raise Invalid(f"{request.trigger_type!r} is none of {', '.join(get_args(TriggerType))}")
    check_plan(request.plan)
