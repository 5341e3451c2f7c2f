"""A book over a store, with all that a test moves by hand around it."""

from collections.abc import Callable, Coroutine
from typing import Any

from arco.core.runtime import Runtime
from arco.events.registry import DOMAINS
from arco.flow.run.book import RunBook
from arco.flow.run.facts import LedgerFacts
from arco.flow.run.lease import given
from arco.flow.run.made import stamped
from arco.flow.run.wire import (
    Beat,
    Completed,
    Leased,
    LeasedTask,
    MakerCode,
    Offer,
    Outcome,
    OutputDone,
    RunStatus,
    RunView,
    TaskStatus,
)
from arco.ledger.writers import Writers
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.flow.run.chains import Chains
from tests.flow.run.plans import PROJECT
from tests.flow.run.reading import LedgerReader
from tests.ledger.simulated import Calm, simulate

SUCCESS = Outcome(status=TaskStatus.SUCCESS, code_fingerprint="code")
FAILED = Outcome(status=TaskStatus.FAILED, error="it broke")
BLOCKED = Outcome(status=TaskStatus.BLOCKED, error="a check failed")
CANCELLED = Outcome(status=TaskStatus.CANCELLED)


class Rig:
    """One book at a time; `restart` drops it and opens another over the same store."""

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
        self.code = {"t": MakerCode(code="code")}  # that its workers have loaded
        self.troubles: list[
            tuple[str, Exception, dict[str, str]]
        ] = []  # what no caller was told of
        self.book = self._new()

    def _new(self) -> RunBook:
        self.reader = LedgerReader(self.store(Role.API), self.chains.ids, self.sources)
        self.writers = Writers(self.store(Role.API), DOMAINS)
        self.facts = LedgerFacts(self.writers)
        return RunBook(
            self.store(Role.FLOW),
            facts=self.facts,
            fences=self.chains,
            versions=self.chains,
            states=self.reader,
            runs=self.reader,
            tell=self._hear,
        )

    def _hear(self, what: str, problem: Exception, /, **whose: str) -> None:
        self.troubles.append((what, problem, whose))

    async def restart(self) -> None:
        """The process dies, and another begins."""
        await self.book.close()
        self.book = self._new()
        await self.book.begin()

    async def lease(
        self, worker: str = "w", slots: int = 100, **also: Any
    ) -> tuple[LeasedTask, ...]:
        return (await self.offer(worker, slots, **also)).tasks

    async def offer(self, worker: str = "w", slots: int = 100, **also: Any) -> Leased:
        said = {"code": self.code, **also}
        return await self.book.lease(Offer(worker=worker, slots=slots, project=PROJECT, **said))

    async def complete(
        self, task: LeasedTask, outcome: Outcome = SUCCESS, worker: str = "w", **also: Any
    ) -> None:
        await self.book.complete(self.completed(task, outcome, worker, **also))

    def completed(
        self, task: LeasedTask, outcome: Outcome = SUCCESS, worker: str = "w", **also: Any
    ) -> Completed:
        now_ms = self.runtime.clock.now_ms()
        return Completed(
            attempt_id=task.attempt_id,
            worker=worker,
            started_at_ms=now_ms,
            completed_at_ms=now_ms,
            outcome=outcome,
            **{"inputs": given(task.inputs), **also},
        )

    async def beat(
        self, task: LeasedTask, worker: str = "w", log: str = "", log_part: int | None = None
    ) -> Any:
        beat = Beat(attempt_id=task.attempt_id, worker=worker, log=log, log_part=log_part)
        return await self.book.beat(beat)

    def publish(self, task: LeasedTask, code: str | None = None) -> Outcome:
        """What a worker does with a task that writes tables: by default with the planned code."""
        code = code or (task.code.code if task.code else "code")
        outputs = []
        for place in stamped(task, code).outputs:
            if place.is_made:
                continue
            number = self.chains.publish(place)
            outputs.append(
                OutputDone(
                    table=place.table,
                    table_id=self.chains.ids[place.table],
                    partition=task.partition,
                    version=number,
                    rows=10,
                )
            )
        return Outcome(status=TaskStatus.SUCCESS, code_fingerprint=code, outputs=tuple(outputs))

    async def statuses(self, run_id: str) -> dict[str, str]:
        view = await self.book.look(run_id)
        return {each.key: each.status.value for each in view.changed}

    async def told(self, run_id: str) -> dict[str, str]:
        """The same as the ledger has it."""
        stored = await self.reader.run(run_id)
        assert stored is not None
        return {each.key: each.status.value for each in stored.tasks}

    async def over(self, run_id: str, within_ms: int = 20_000) -> RunView:
        """The run once it is over."""
        view = await self.book.look(run_id)
        ends = self.runtime.clock.elapsed_ms() + within_ms
        while view.status is RunStatus.RUNNING and self.runtime.clock.elapsed_ms() < ends:
            view = await self.book.look(run_id, view.number, 1_000)
        assert view.status is not RunStatus.RUNNING, view
        return await self.book.look(run_id)

    async def sleep(self, ms: float) -> None:
        await self.runtime.clock.sleep(ms)


def story(
    tell: Callable[[Rig], Coroutine[Any, Any, None]], sources: frozenset[str] = frozenset()
) -> None:
    """Run a story in virtual time, over a store without faults."""

    async def told(calm: Calm) -> None:
        rig = Rig(calm.store, calm.runtime, sources=sources)
        await rig.book.begin()
        await tell(rig)
        await rig.book.close()

    simulate(told)
