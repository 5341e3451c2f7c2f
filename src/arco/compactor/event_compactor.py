"""Tier 2 as a service: all domains on one engine.

Each domain goes at its own pace beside the others, so that none waits for a cycle of another, however long
that takes; the engine shares its cores among them. What fails is reported and tried again, later each time.
It may be stopped at any point: nothing exists until a manifest names it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType

from arco.compactor.backoff import Backoff
from arco.compactor.catalog_compactor import FailureCallback
from arco.compactor.domain_compactor import CycleReport, DomainCompactor
from arco.compactor.engine import CompactionEngine
from arco.compactor.tail_merge import TailPolicy
from arco.core.runtime import Runtime
from arco.fold.tier2 import TIER2
from arco.ledger.follower import MOST_PLACES
from arco.ledger.segment import Segment
from arco.storage.store import Store

MANY_EVENTS = 1_000

_SHORTEST_MS = 1_000


@dataclass(frozen=True)
class CompactionPace:
    """How long a domain rests from the begin of one cycle to the begin of the next.

    `longest_ms` while cycles carry few events, a second while they carry many, and not at all while
    a backlog is known to wait. 0: never.
    """

    longest_ms: float = 0

    def pause_ms(self, events: int, *, behind: bool) -> float:
        """The pause after a cycle that carried so many events."""
        if behind:
            return 0
        return min(_SHORTEST_MS, self.longest_ms) if events >= MANY_EVENTS else self.longest_ms


CycleCallback = Callable[[CycleReport], None]

_KEEP_ALL: Mapping[str, timedelta] = MappingProxyType({})


class DomainState:
    """How one domain stands, as its compactor knows it."""

    def __init__(self, runtime: Runtime, compactor: DomainCompactor) -> None:
        self.compactor = compactor
        self.cycles = Backoff(runtime)
        self.merges = Backoff(runtime)
        self.last: CycleReport | None = None  # the last that has published events
        self.rung = runtime.tasks.event()
        self.rests_until_ms = 0.0

    @property
    def is_behind(self) -> bool:
        """Whether it is known that more is waiting."""
        return self.compactor.is_behind

    def due_in_ms(self) -> float:
        """How long it takes until there is something to do, if nobody rings."""
        return max(self.compactor.due_in_ms(), self.cycles.rest_ms())


class EventCompactor:
    """Compacts all domains until it is closed.

    `report` hears of every manifest, `tell` of what has failed. `retention` says by table how long rows
    are kept. Without a `pace`, every event is compacted as soon as it is heard of.
    """

    def __init__(
        self,
        store: Store,
        engine: CompactionEngine,
        *,
        domains: Sequence[str] = tuple(TIER2),
        retention: Mapping[str, timedelta] = _KEEP_ALL,
        tell: FailureCallback | None = None,
        report: CycleCallback | None = None,
        most_segments: int = MOST_PLACES,
        policy: TailPolicy | None = None,
        pace: CompactionPace | None = None,
    ) -> None:
        self._tasks = store.runtime.tasks
        self._clock = store.runtime.clock
        self._tell = tell
        self._report = report
        self._pace = pace or CompactionPace()
        self._closing = self._tasks.event()
        self._ended = self._tasks.event()
        self._is_running = False
        self._is_closed = False
        self.domains = {
            each: DomainState(
                store.runtime,
                DomainCompactor(
                    store,
                    each,
                    engine,
                    retention=retention,
                    most_segments=most_segments,
                    policy=policy,
                    on_crash=self._crash_reporter(each),
                ),
            )
            for each in domains
        }

    def ring(self, domain: str, stream: str, handed: Iterable[Segment] = ()) -> None:
        """A stream of a domain has something new, of which these segments need not be read any more.

        Domains that are not ours are no news.
        """
        if domain in self.domains:
            self.domains[domain].compactor.ring(stream, handed=handed)
            self.domains[domain].rung.set()

    async def once(self) -> list[CycleReport]:
        """All work that there is now, merges included; what fails is raised.

        What comes meanwhile is left for the next time: beside a busy writer it would never end.
        """
        done: list[CycleReport] = []
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
        running = [self._tasks.spawn(self._keep_up(each)) for each in self.domains.values()]
        try:
            for each in running:
                await each.wait()
        finally:
            for each in running:
                each.cancel()
            self._is_running = False
            self._ended.set()

    async def close(self) -> None:
        """Begin nothing new, and let the work under way end; whoever cannot wait cancels `run` instead."""
        self._is_closed = True
        self._closing.set()
        for each in self.domains.values():
            each.rung.set()
        if self._is_running:
            await self._ended.wait()
        for each in self.domains.values():
            await each.compactor.close()

    async def _keep_up(self, domain: DomainState) -> None:
        """Compact one domain until `close`."""
        while not self._is_closed:
            domain.rung.clear()
            if await self._turn(domain):
                await self._rest(domain)
            else:
                await self._wait(domain)

    async def _turn(self, domain: DomainState) -> bool:
        """One cycle of a domain and a merge if one is due; whether there was anything to do."""
        if self._is_closed or domain.cycles.rest_ms():
            return False
        was_behind, began_ms = domain.is_behind, self._clock.elapsed_ms()
        try:
            cycle = await domain.compactor.cycle()
        except Exception as problem:
            self._failed("compaction", domain, domain.cycles, problem)
            return False
        domain.cycles.worked()
        if cycle is not None:
            self._note(domain, cycle)
            pause_ms = self._pace.pause_ms(cycle.counts.events, behind=domain.is_behind)
            domain.rests_until_ms = began_ms + pause_ms
        if cycle is not None or was_behind:
            await self._merge(domain)
        return cycle is not None

    async def _merge(self, domain: DomainState) -> None:
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

    async def _rest(self, domain: DomainState) -> None:
        """Let events gather, as the pace demands."""
        rest_ms = domain.rests_until_ms - self._clock.elapsed_ms()
        if rest_ms > 0:
            with suppress(TimeoutError):
                await self._tasks.deadline(rest_ms, self._closing.wait())

    async def _wait(self, domain: DomainState) -> None:
        """Until a domain is due, or somebody rings."""
        with suppress(TimeoutError):
            await self._tasks.deadline(domain.due_in_ms(), domain.rung.wait())

    def _note(self, domain: DomainState, cycle: CycleReport) -> CycleReport:
        if cycle.counts.events:
            domain.last = cycle
        if self._report is not None:
            self._report(cycle)
        return cycle

    def _crash_reporter(self, domain: str) -> Callable[[Exception], None]:
        def report(problem: Exception) -> None:
            if self._tell is not None:
                self._tell(f"compaction of {domain}", problem)

        return report

    def _failed(self, what: str, domain: DomainState, backoff: Backoff, problem: Exception) -> None:
        backoff.failed(problem)
        if self._tell is not None:
            self._tell(f"{what} of {domain.compactor.domain}", problem)
