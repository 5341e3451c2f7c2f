"""A coordinator over a simulated store, with in-memory tables, and the calls of its workers."""

import inspect
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from arco.core.runtime import Runtime
from arco.events.registry import DOMAINS
from arco.flow.coordinator.attempt_events import stamp_outputs
from arco.flow.coordinator.coordinator import RunCoordinator
from arco.flow.coordinator.event_writer import LedgerEventWriter
from arco.flow.coordinator.leases import digest_inputs
from arco.flow.coordinator.messages import (
    AttemptOutcome,
    AttemptReport,
    CodeVersion,
    Heartbeat,
    LeasedTask,
    LeaseRequest,
    LeaseResponse,
    OutputResult,
    RunStatus,
    RunView,
    TaskStatus,
)
from arco.flow.coordinator.ports import EventWriter
from arco.ledger.writer import DomainWriters
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.flow.coordinator.chains import Chains
from tests.flow.coordinator.ledger_reader import LedgerReader
from tests.flow.coordinator.plans import PROJECT
from tests.ledger.simulated import Calm, simulate

P = ParamSpec("P")

SUCCESS = AttemptOutcome(status=TaskStatus.SUCCESS, code_fingerprint="code")
FAILED = AttemptOutcome(status=TaskStatus.FAILED, error="it broke")
BLOCKED = AttemptOutcome(status=TaskStatus.BLOCKED, error="a check failed")
CANCELLED = AttemptOutcome(status=TaskStatus.CANCELLED)


class CoordinatorSetup:
    """One coordinator at a time; `restart` drops it and opens another one over the same store."""

    def __init__(
        self,
        store: Callable[[Role], Store],
        runtime: Runtime,
        chains: Chains | None = None,
        sources: frozenset[str] = frozenset(),
    ) -> None:
        self.store = store
        self.runtime = runtime
        self.chains = chains or Chains()
        self.sources = sources
        self.code = {"t": CodeVersion(code="code")}  # of its workers
        self.errors: list[tuple[str, Exception, dict[str, str]]] = []  # that no caller got
        self.coordinator = self.new_coordinator()

    def new_coordinator(self, events: EventWriter | None = None) -> RunCoordinator:
        self.reader = LedgerReader(self.store(Role.API), self.chains.ids, self.sources)
        self.writers = DomainWriters(self.store(Role.API), DOMAINS)
        self.events = LedgerEventWriter(self.writers)
        return RunCoordinator(
            self.store(Role.FLOW),
            events=events or self.events,
            fences=self.chains,
            versions=self.chains,
            states=self.reader,
            runs=self.reader,
            on_error=self._on_error,
        )

    def _on_error(self, what: str, problem: Exception, /, **labels: str) -> None:
        self.errors.append((what, problem, labels))

    async def restart(self) -> None:
        """The process ends, and another one starts."""
        await self.coordinator.close()
        self.coordinator = self.new_coordinator()
        await self.coordinator.begin()

    async def lease(
        self, worker: str = "w", slots: int = 100, **also: Any
    ) -> tuple[LeasedTask, ...]:
        return (await self.request(worker, slots, **also)).tasks

    async def request(self, worker: str = "w", slots: int = 100, **also: Any) -> LeaseResponse:
        fields = {"code": self.code, **also}
        return await self.coordinator.lease(
            LeaseRequest(worker=worker, slots=slots, project=PROJECT, **fields)
        )

    async def complete(
        self, task: LeasedTask, outcome: AttemptOutcome = SUCCESS, worker: str = "w", **also: Any
    ) -> None:
        await self.coordinator.complete(self.completed(task, outcome, worker, **also))

    def completed(
        self, task: LeasedTask, outcome: AttemptOutcome = SUCCESS, worker: str = "w", **also: Any
    ) -> AttemptReport:
        now_ms = self.runtime.clock.now_ms()
        return AttemptReport(
            attempt_id=task.attempt_id,
            worker=worker,
            started_at_ms=now_ms,
            completed_at_ms=now_ms,
            outcome=outcome,
            **{"inputs": digest_inputs(task.inputs), **also},
        )

    async def heartbeat(
        self, task: LeasedTask, worker: str = "w", log: str = "", log_part: int | None = None
    ) -> Any:
        beat = Heartbeat(attempt_id=task.attempt_id, worker=worker, log=log, log_part=log_part)
        return await self.coordinator.heartbeat(beat)

    def publish(self, task: LeasedTask, code: str | None = None) -> AttemptOutcome:
        """Publish the outputs of a task as a worker does, by default with the planned code."""
        code = code or (task.code.code if task.code else "code")
        outputs = []
        for place in stamp_outputs(task, code).outputs:
            if place.is_made:
                continue
            number = self.chains.publish(place)
            outputs.append(
                OutputResult(
                    table=place.table,
                    table_id=self.chains.ids[place.table],
                    partition=task.partition,
                    version=number,
                    rows=10,
                )
            )
        return AttemptOutcome(
            status=TaskStatus.SUCCESS, code_fingerprint=code, outputs=tuple(outputs)
        )

    async def statuses(self, run_id: str) -> dict[str, str]:
        view = await self.coordinator.get_run(run_id)
        return {each.key: each.status.value for each in view.changed}

    async def recorded(self, run_id: str) -> dict[str, str]:
        """The statuses of tasks as the ledger has them."""
        stored = await self.reader.run(run_id)
        assert stored is not None
        return {each.key: each.status.value for each in stored.tasks}

    async def over(self, run_id: str, within_ms: int = 20_000) -> RunView:
        """The run once it has ended."""
        view = await self.coordinator.get_run(run_id)
        ends = self.runtime.clock.elapsed_ms() + within_ms
        while view.status is RunStatus.RUNNING and self.runtime.clock.elapsed_ms() < ends:
            view = await self.coordinator.get_run(run_id, view.number, 1_000)
        assert view.status is not RunStatus.RUNNING, view
        return await self.coordinator.get_run(run_id)

    async def sleep(self, ms: float) -> None:
        await self.runtime.clock.sleep(ms)


def run_scenario(
    scenario: Callable[[CoordinatorSetup], Coroutine[Any, Any, None]],
    sources: frozenset[str] = frozenset(),
) -> None:
    """Run a scenario in virtual time, over a store without faults."""

    async def run(calm: Calm) -> None:
        setup = CoordinatorSetup(calm.store, calm.runtime, sources=sources)
        await setup.coordinator.begin()
        await scenario(setup)
        await setup.coordinator.close()

    simulate(run)


def simulated(
    scenario: Callable[Concatenate[CoordinatorSetup, P], Coroutine[Any, Any, None]],
) -> Callable[P, None]:
    """A test labels body is a scenario; pytest passes all arguments but `setup`."""

    @wraps(scenario)
    def test(*args: P.args, **kwargs: P.kwargs) -> None:
        run_scenario(lambda setup: scenario(setup, *args, **kwargs))

    signature = inspect.signature(scenario)
    parameters = [*signature.parameters.values()][1:]
    test.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return test


def in_virtual_time(scenario: Callable[[Calm], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """A test labels body is a scenario over a simulated store, without a coordinator."""

    @wraps(scenario)
    def test() -> None:
        simulate(scenario)

    test.__signature__ = inspect.Signature()  # type: ignore[attr-defined]
    return test
