"""Tier 2 as a service: all domains, one engine, one cycle after the other.

The domains stand in line: who had work goes to its end, so that none waits for longer than one cycle and
one merge of each other, and none is always the last. What fails is told and tried again, later each time,
and holds up no other domain. It may be stopped at any point: nothing exists until a manifest names it.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType

from arco.compactor.backoff import Backoff
from arco.compactor.compactor import Tell
from arco.compactor.cycle import Cycle, DomainCompactor
from arco.compactor.job import Engine
from arco.compactor.tail import Policy
from arco.core.runtime import Runtime
from arco.fold.tier2 import TIER2
from arco.ledger.follower import MOST_PLACES
from arco.storage.store import Store

Report = Callable[[Cycle], None]

_KEEP_ALL: Mapping[str, timedelta] = MappingProxyType({})


class Standing:
    """How one domain stands, as its compactor knows it."""

    def __init__(self, runtime: Runtime, compactor: DomainCompactor) -> None:
        self.compactor = compactor
        self.cycles = Backoff(runtime)
        self.merges = Backoff(runtime)
        self.last: Cycle | None = None  # the last that has published events

    @property
    def is_behind(self) -> bool:
        """Whether it is known that more is waiting."""
        return self.compactor.is_behind

    def due_in_ms(self) -> float:
        """How long it takes until there is something to do, if nobody rings."""
        return max(self.compactor.due_in_ms(), self.cycles.rest_ms())


class Tier2:
    """Compacts all domains until it is closed.

    `report` hears of every manifest, `tell` of what has failed. `retention` says by table how long rows
    are kept.
    """

    def __init__(
        self,
        store: Store,
        engine: Engine,
        *,
        domains: Sequence[str] = tuple(TIER2),
        retention: Mapping[str, timedelta] = _KEEP_ALL,
        tell: Tell | None = None,
        report: Report | None = None,
        most_segments: int = MOST_PLACES,
        policy: Policy | None = None,
    ) -> None:
        self._tasks = store.runtime.tasks
        self._tell = tell
        self._report = report
        self._rung = self._tasks.event()
        self._ended = self._tasks.event()
        self._is_running = False
        self._is_closed = False
        self.domains = {
            each: Standing(
                store.runtime,
                DomainCompactor(
                    store,
                    each,
                    engine,
                    retention=retention,
                    most_segments=most_segments,
                    policy=policy,
                ),
            )
            for each in domains
        }
        self._line = list(self.domains.values())

    def ring(self, domain: str, stream: str) -> None:
        """A stream of a domain has something new; domains that are not ours are no news."""
        if domain in self.domains:
            self.domains[domain].compactor.ring(stream)
            self._rung.set()

    async def once(self) -> list[Cycle]:
        """All work that there is now, merges included; what fails is raised.

        What comes meanwhile is left for the next time: beside a busy writer it would never end.
        """
        done: list[Cycle] = []
        for each in self.domains.values():
            while (cycle := await each.compactor.cycle(everything=True)) is not None:
                done.append(self._note(each, cycle))
                if not each.is_behind:
                    break
            while (cycle := await each.compactor.merge()) is not None:
                done.append(self._note(each, cycle))
        return done

    async def run(self) -> None:
        """Compact until `close`, hardly asking the store while there is nothing to do."""
        self._is_running = True
        try:
            while not self._is_closed:
                self._rung.clear()
                if not await self._round():
                    await self._wait()
        finally:
            self._is_running = False
            self._ended.set()

    async def close(self) -> None:
        """Begin nothing new, and let the work under way end; whoever cannot wait cancels `run` instead."""
        self._is_closed = True
        self._rung.set()
        if self._is_running:
            await self._ended.wait()
        for each in self.domains.values():
            await each.compactor.close()

    async def _round(self) -> bool:
        """A turn of each domain, first those that had none for the longest time; whether any had work."""
        worked = [each for each in tuple(self._line) if await self._turn(each)]
        self._line = [each for each in self._line if each not in worked] + worked
        return bool(worked)

    async def _turn(self, domain: Standing) -> bool:
        """One cycle of a domain and a merge if one is due; whether there was anything to do."""
        if self._is_closed or domain.cycles.rest_ms():
            return False
        was_behind = domain.is_behind
        try:
            cycle = await domain.compactor.cycle()
        except Exception as problem:
            self._failed("compaction", domain, domain.cycles, problem)
            return False
        domain.cycles.worked()
        if cycle is not None:
            self._note(domain, cycle)
        if cycle is not None or was_behind:
            await self._merge(domain)
        return cycle is not None

    async def _merge(self, domain: Standing) -> None:
        """A merge that fails is left alone for a while: a tail that is long costs time only."""
        if self._is_closed or domain.merges.rest_ms():
            return
        try:
            merged = await domain.compactor.merge()
        except Exception as problem:
            self._failed("merge", domain, domain.merges, problem)
            return
        domain.merges.worked()
        if merged is not None:
            self._note(domain, merged)

    async def _wait(self) -> None:
        """Until a domain is due, or somebody rings."""
        due_ms = min(each.due_in_ms() for each in self.domains.values())
        try:
            await self._tasks.deadline(due_ms, self._rung.wait())
        except TimeoutError:
            return

    def _note(self, domain: Standing, cycle: Cycle) -> Cycle:
        if cycle.counts.events:
            domain.last = cycle
        if self._report is not None:
            self._report(cycle)
        return cycle

    def _failed(self, what: str, domain: Standing, backoff: Backoff, problem: Exception) -> None:
        backoff.failed(problem)
        if self._tell is not None:
            self._tell(f"{what} of {domain.compactor.domain}", problem)
