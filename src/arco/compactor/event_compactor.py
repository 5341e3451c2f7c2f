"""The compactor of all event domains (Tier 2), as a service on one engine.

Domains are compacted in parallel, so that none waits for a long cycle of another; the engine shares its
cores among them. A failure is reported and retried with back-off. The service may be stopped at any point:
nothing is published until a manifest names it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType

from arco.compactor.catalog_compactor import FailureCallback
from arco.compactor.domain_compactor import CycleReport, DomainCompactor
from arco.compactor.engine import CompactionEngine
from arco.compactor.tail_merge import TailPolicy
from arco.core.backoff import ExponentialBackoff
from arco.core.runtime import Runtime
from arco.fold.tier2 import TIER2
from arco.ledger.follower import MAX_BATCH_SEGMENTS
from arco.ledger.segment import Segment
from arco.storage.store import Store

MANY_EVENTS = 1_000

_MIN_MS = 1_000
_BACKOFF = ExponentialBackoff(1_000, 60_000)


@dataclass(frozen=True)
class CompactionPace:
    """How long a domain pauses from the start of one cycle to the start of the next.

    A publication costs a Spark job and some requests, however few events it has, so events wait for
    others; a fresh read shows them meanwhile. The pause is `longest_ms` after cycles with few events, a
    second after cycles with many, and 0 while there is a backlog.
    """

    longest_ms: float = 0

    def pause_ms(self, events: int, *, is_behind: bool) -> float:
        """The pause after a cycle with so many events."""
        if is_behind:
            return 0
        return min(_MIN_MS, self.longest_ms) if events >= MANY_EVENTS else self.longest_ms


CycleCallback = Callable[[CycleReport], None]

_KEEP_ALL: Mapping[str, timedelta] = MappingProxyType({})


class FailureCount:
    """The failures of an operation in a row, and when it may be tried again."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._retry_at_ms = 0.0
        self.failures = 0
        self.problem: Exception | None = None

    def retry_in_ms(self) -> float:
        """The time until the next attempt; 0 if it may be made now."""
        return max(0, self._retry_at_ms - self._runtime.clock.elapsed_ms())

    def add(self, problem: Exception) -> None:
        """Count a failure."""
        self.failures += 1
        self.problem = problem
        pause_ms = _BACKOFF.pause_ms(self.failures, self._runtime.rng)
        self._retry_at_ms = self._runtime.clock.elapsed_ms() + pause_ms

    def reset(self) -> None:
        """Start over after a success."""
        self.failures, self.problem, self._retry_at_ms = 0, None, 0.0


class DomainState:
    """A domain, its compactor, and when it may run again."""

    def __init__(self, runtime: Runtime, compactor: DomainCompactor) -> None:
        self.compactor = compactor
        self.cycles = FailureCount(runtime)
        self.merges = FailureCount(runtime)
        self.last_published: CycleReport | None = None  # the last cycle that published events
        self.notified = runtime.tasks.event()
        self.paused_until_ms = 0.0

    @property
    def is_behind(self) -> bool:
        """Whether more segments are known to wait."""
        return self.compactor.is_behind

    def due_in_ms(self) -> float:
        """The time until the domain must be polled, unless `notify` reports new segments."""
        return max(self.compactor.due_in_ms(), self.cycles.retry_in_ms())


class EventCompactor:
    """Compacts all domains until it is closed.

    `report` is called for every manifest, `on_failure` for every failure. `retention` is how long rows are
    kept, by table. Without a `pace`, events are compacted at once.
    """

    def __init__(
        self,
        store: Store,
        engine: CompactionEngine,
        *,
        domains: Sequence[str] = tuple(TIER2),
        retention: Mapping[str, timedelta] = _KEEP_ALL,
        on_failure: FailureCallback | None = None,
        report: CycleCallback | None = None,
        most_segments: int = MAX_BATCH_SEGMENTS,
        policy: TailPolicy | None = None,
        pace: CompactionPace | None = None,
    ) -> None:
        self._tasks = store.runtime.tasks
        self._clock = store.runtime.clock
        self._on_failure = on_failure
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

    def notify(self, domain: str, stream: str, handed: Iterable[Segment] = ()) -> None:
        """Report new segments in a stream; those in `handed` need not be read from the store.

        Domains that this compactor does not compact are ignored.
        """
        if domain in self.domains:
            self.domains[domain].compactor.notify(stream, handed=handed)
            self.domains[domain].notified.set()

    async def once(self) -> list[CycleReport]:
        """Compact all events that are in the ledger now, and merge; failures are raised.

        Events that arrive meanwhile are left, as beside a busy writer it would never end.
        """
        done: list[CycleReport] = []
        for each in self.domains.values():
            while (cycle := await each.compactor.cycle(everything=True)) is not None:
                done.append(self._record(each, cycle))
                if not each.is_behind:
                    break
            while (cycle := await each.compactor.merge()) is not None:
                done.append(self._record(each, cycle))
        return done

    async def run(self) -> None:
        """Compact until `close`, with few requests while there is nothing to do."""
        self._is_running = True
        running = [
            self._tasks.spawn(self._compact_until_closed(each)) for each in self.domains.values()
        ]
        try:
            for each in running:
                await each.wait()
        finally:
            for each in running:
                each.cancel()
            self._is_running = False
            self._ended.set()

    async def close(self) -> None:
        """Start no new cycle, and wait for those in progress; to stop at once, cancel `run` instead."""
        self._is_closed = True
        self._closing.set()
        for each in self.domains.values():
            each.notified.set()
        if self._is_running:
            await self._ended.wait()
        for each in self.domains.values():
            await each.compactor.close()

    async def _compact_until_closed(self, domain: DomainState) -> None:
        """Compact one domain until `close`."""
        while not self._is_closed:
            domain.notified.clear()
            if await self._run_cycle(domain):
                await self._pause(domain)
            else:
                await self._wait(domain)

    async def _run_cycle(self, domain: DomainState) -> bool:
        """Run one cycle of a domain, and a merge if one is due; whether something was published."""
        if self._is_closed or domain.cycles.retry_in_ms():
            return False
        was_behind, began_ms = domain.is_behind, self._clock.elapsed_ms()
        try:
            cycle = await domain.compactor.cycle()
        except Exception as problem:
            self._failed("compaction", domain, domain.cycles, problem)
            return False
        domain.cycles.reset()
        if cycle is not None:
            self._record(domain, cycle)
            pause_ms = self._pace.pause_ms(cycle.counts.events, is_behind=domain.is_behind)
            domain.paused_until_ms = began_ms + pause_ms
        if cycle is not None or was_behind:
            await self._merge(domain)
        return cycle is not None

    async def _merge(self, domain: DomainState) -> None:
        """Merge, with back-off after a failure: a long tail only slows readers down."""
        if self._is_closed or domain.merges.retry_in_ms():
            return
        try:
            merged = await domain.compactor.merge()
        except Exception as problem:
            self._failed("merge", domain, domain.merges, problem)
            return
        domain.merges.reset()
        if merged is not None:
            self._record(domain, merged)

    async def _pause(self, domain: DomainState) -> None:
        """Pause before the next cycle, as `pace` says."""
        pause_ms = domain.paused_until_ms - self._clock.elapsed_ms()
        if pause_ms > 0:
            with suppress(TimeoutError):
                await self._tasks.deadline(pause_ms, self._closing.wait())

    async def _wait(self, domain: DomainState) -> None:
        """Wait until a domain is due or `notify` is called."""
        with suppress(TimeoutError):
            await self._tasks.deadline(domain.due_in_ms(), domain.notified.wait())

    def _record(self, domain: DomainState, cycle: CycleReport) -> CycleReport:
        if cycle.counts.events:
            domain.last_published = cycle
        if self._report is not None:
            self._report(cycle)
        return cycle

    def _crash_reporter(self, domain: str) -> Callable[[Exception], None]:
        def report(problem: Exception) -> None:
            if self._on_failure is not None:
                self._on_failure(f"compaction of {domain}", problem)

        return report

    def _failed(
        self, operation: str, domain: DomainState, failures: FailureCount, problem: Exception
    ) -> None:
        failures.add(problem)
        if self._on_failure is not None:
            self._on_failure(f"{operation} of {domain.compactor.domain}", problem)
