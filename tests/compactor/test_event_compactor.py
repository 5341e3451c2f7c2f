"""The event compactor: all domains progress, failures hold up no other domain, and it can be closed."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise

import msgspec
import pytest

from arco.catalog.manifest import CommitKind, read_commit, read_manifest
from arco.compactor.domain_compactor import CycleReport
from arco.compactor.engine import CompactionEngine, FoldJob, FoldResult, MergeJob, MergeResult
from arco.compactor.event_compactor import MANY_EVENTS, CompactionPace, EventCompactor
from arco.compactor.publisher import Publisher
from arco.core.clock import utc
from arco.core.errors import Unavailable
from arco.core.ids import new_ulid
from arco.core.runtime import Runtime
from arco.fold.tier2 import TIER2
from arco.ledger.envelope import Envelope, Source
from arco.ledger.writer import LedgerWriter
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.compactor.in_process_engine import InProcessEngine
from tests.ledger.events import note
from tests.ledger.simulated import Calm, simulate
from tests.sim.world import HOUR_MS, MINUTE_MS, SECOND_MS
from tests.stores import open_bench

EXECUTIONS, LINEAGE, SEARCH = TIER2


def started(runtime: Runtime, name: str) -> Envelope:
    now = utc(runtime.clock.now_ms())
    payload = {"execution_id": name, "pipeline_id": "p"}
    return Envelope(
        event_id=new_ulid(runtime),
        event_type="execution_started",
        event_version=1,
        occurred_at=now,
        received_at=now,
        idempotency_key=name,
        source=Source("test"),
        payload=msgspec.Raw(msgspec.json.encode(payload)),
    )


class Choosy:
    """An engine that refuses domains for a while."""

    def __init__(self, engine: CompactionEngine, **refused: int) -> None:
        self._engine = engine
        self._refused = refused
        self.folds: list[tuple[str, float]] = []
        self.now: Callable[[], float] = lambda: 0

    async def fold(self, job: FoldJob) -> FoldResult:
        self.folds.append((job.domain, self.now()))
        if self._refused.get(job.domain, 0) > 0:
            self._refused[job.domain] -= 1
            raise Unavailable("not now")
        return await self._engine.fold(job)

    async def merge(self, job: MergeJob) -> MergeResult:
        return await self._engine.merge(job)


class NoMerge:
    """An engine that cannot merge."""

    def __init__(self, engine: CompactionEngine) -> None:
        self._engine = engine

    async def fold(self, job: FoldJob) -> FoldResult:
        return await self._engine.fold(job)

    async def merge(self, job: MergeJob) -> MergeResult:
        raise Unavailable("too large")


async def events_of(store: Store, domain: str) -> int:
    """How many events a domain has published, by its commit records."""
    chain = Publisher(store, domain).chain
    head = await chain.head()
    records = [
        await read_commit(store, read_manifest(entry).commit)
        for entry in await chain.history(0, head.number)
    ]
    return sum(each.counts.events for each in records if each.counts)


async def test_once_does_all_that_there_is_and_then_nothing(runtime: Runtime) -> None:
    bench = open_bench("memory://", runtime)
    for domain in TIER2:
        writer = LedgerWriter(bench.store(), domain)
        for n in range(3):
            await writer.append([started(runtime, f"e{n}")])
        await writer.close()
    store = bench.store(Role.COMPACTOR)
    reported: list[CycleReport] = []
    tier2 = EventCompactor(store, InProcessEngine(store), report=reported.append)
    done = await tier2.once()
    assert [(each.domain, each.kind, each.counts.events) for each in done] == [
        (domain, CommitKind.FOLD, 3) for domain in TIER2
    ]
    assert reported == done
    assert await tier2.once() == []
    await tier2.close()


class Busy:
    """An engine during whose folds another event arrives."""

    def __init__(self, engine: CompactionEngine, writer: LedgerWriter, runtime: Runtime) -> None:
        self._engine = engine
        self._writer = writer
        self._runtime = runtime
        self.folds = 0

    async def fold(self, job: FoldJob) -> FoldResult:
        self.folds += 1
        assert self.folds < 10, "it never ends"
        await self._writer.append([started(self._runtime, f"while {self.folds}")])
        return await self._engine.fold(job)

    async def merge(self, job: MergeJob) -> MergeResult:
        return await self._engine.merge(job)


async def test_once_ends_though_a_writer_never_stops(runtime: Runtime) -> None:
    bench = open_bench("memory://", runtime)
    store = bench.store(Role.COMPACTOR)
    writer = LedgerWriter(bench.store(), EXECUTIONS)
    for number in range(5):
        await writer.append([started(runtime, f"e{number}")])
    engine = Busy(InProcessEngine(store), writer, runtime)
    done = await EventCompactor(store, engine, most_segments=2).once()
    assert sum(cycle.counts.events for cycle in done) >= 5, "what was there before is all done"
    assert await events_of(store, EXECUTIONS) >= 5


async def test_once_makes_long_tails_shorter_too(runtime: Runtime) -> None:
    bench = open_bench("memory://", runtime)
    writer = LedgerWriter(bench.store(), EXECUTIONS)
    store = bench.store(Role.COMPACTOR)
    for n in range(16):
        await writer.append([started(runtime, f"e{n}")])
        done = await EventCompactor(store, InProcessEngine(store)).once()
    assert [each.kind for each in done] == [CommitKind.FOLD, CommitKind.MERGE]


async def test_once_raises_what_fails(runtime: Runtime) -> None:
    bench = open_bench("memory://", runtime)
    await LedgerWriter(bench.store(), EXECUTIONS).append([started(runtime, "e")])
    store = bench.store(Role.COMPACTOR)
    with pytest.raises(Unavailable):
        await EventCompactor(store, Choosy(InProcessEngine(store), executions=1)).once()


async def test_a_ring_brings_an_event_of_any_domain_at_once_until_it_is_closed(
    runtime: Runtime,
) -> None:
    bench = open_bench("memory://", runtime)
    store = bench.store(Role.COMPACTOR)
    heard: asyncio.Queue[CycleReport] = asyncio.Queue()
    tier2 = EventCompactor(store, InProcessEngine(store), report=heard.put_nowait)
    running = asyncio.ensure_future(tier2.run())
    writers = {domain: LedgerWriter(bench.store(), domain) for domain in TIER2}
    tier2.notify("no such domain", "stream")
    for _ in range(3):
        for domain, writer in writers.items():
            receipt = await writer.append([started(runtime, "e")])
            tier2.notify(domain, receipt.stream)
            cycle = await asyncio.wait_for(heard.get(), 5)
            assert (cycle.domain, cycle.counts.events) == (domain, 1)
            assert tier2.domains[domain].last_published == cycle
    await asyncio.wait_for(tier2.close(), 5)
    await asyncio.wait_for(running, 5)
    await writers[EXECUTIONS].append([started(runtime, "late")])
    assert await events_of(store, EXECUTIONS) == 3


class Stuck:
    """An engine that never ends a fold of one domain."""

    def __init__(self, engine: CompactionEngine, domain: str, runtime: Runtime) -> None:
        self._engine = engine
        self._domain = domain
        self._never = runtime.tasks.event()

    async def fold(self, job: FoldJob) -> FoldResult:
        if job.domain == self._domain:
            await self._never.wait()
        return await self._engine.fold(job)

    async def merge(self, job: MergeJob) -> MergeResult:
        return await self._engine.merge(job)


def test_a_domain_that_is_stuck_holds_up_no_other() -> None:
    async def scenario(simulation: Calm) -> None:
        writers = {domain: LedgerWriter(simulation.store(), domain) for domain in TIER2}
        store = simulation.store(Role.COMPACTOR)
        reported: list[str] = []
        engine = Stuck(InProcessEngine(store), LINEAGE, simulation.runtime)
        tier2 = EventCompactor(store, engine, report=lambda cycle: reported.append(cycle.domain))
        running = simulation.runtime.tasks.spawn(tier2.run())
        for _ in range(3):
            reported.clear()
            for domain in (LINEAGE, EXECUTIONS, SEARCH):
                receipt = await writers[domain].append([note(simulation.runtime)])
                tier2.notify(domain, receipt.stream)
            await simulation.clock.sleep(SECOND_MS)
            assert sorted(reported) == [EXECUTIONS, SEARCH]
        running.cancel()

    simulate(scenario)


def test_few_events_are_compacted_together_and_the_first_of_them_at_once() -> None:
    async def scenario(simulation: Calm) -> None:
        writer = LedgerWriter(simulation.store(), EXECUTIONS)
        store = simulation.store(Role.COMPACTOR)
        reported: list[tuple[int, float]] = []

        def report(cycle: CycleReport) -> None:
            reported.append((cycle.counts.events, simulation.clock.elapsed_ms()))

        tier2 = EventCompactor(
            store, InProcessEngine(store), report=report, pace=CompactionPace(5 * SECOND_MS)
        )
        running = simulation.runtime.tasks.spawn(tier2.run())
        await simulation.clock.sleep(HOUR_MS)
        for _ in range(60):
            receipt = await writer.append([note(simulation.runtime)])
            tier2.notify(EXECUTIONS, receipt.stream)
            await simulation.clock.sleep(SECOND_MS / 6)
        await simulation.clock.sleep(5 * SECOND_MS)
        assert sum(events for events, _ in reported) == 60
        assert reported[0][0] == 1, "the first event is published at once"
        assert len(reported) <= 4
        pauses = [later - at for (_, at), (_, later) in pairwise(reported)]
        assert all(4.5 * SECOND_MS < pause < 5.5 * SECOND_MS for pause in pauses)
        await tier2.close()
        await running.wait()

    simulate(scenario)


def test_many_events_are_compacted_every_second_and_a_backlog_without_a_pause() -> None:
    pace = CompactionPace(5_000)
    assert pace.pause_ms(MANY_EVENTS - 1, is_behind=False) == 5_000
    assert pace.pause_ms(MANY_EVENTS, is_behind=False) == 1_000
    assert pace.pause_ms(1, is_behind=True) == 0
    assert CompactionPace(200).pause_ms(MANY_EVENTS, is_behind=False) == 200
    assert CompactionPace().pause_ms(0, is_behind=False) == 0


def test_a_domain_that_fails_is_tried_again_later_each_time_and_holds_up_no_other() -> None:
    async def scenario(simulation: Calm) -> None:
        for domain in (EXECUTIONS, LINEAGE):
            await LedgerWriter(simulation.store(), domain).append([note(simulation.runtime)])
        store = simulation.store(Role.COMPACTOR)
        engine = Choosy(InProcessEngine(store), executions=4)
        engine.now = simulation.clock.elapsed_ms
        reported: list[tuple[str, Exception]] = []
        tier2 = EventCompactor(
            store,
            engine,
            on_failure=lambda operation, problem: reported.append((operation, problem)),
        )
        running = simulation.runtime.tasks.spawn(tier2.run())
        while tier2.domains[LINEAGE].last_published is None:
            await simulation.clock.sleep(SECOND_MS / 10)
        assert await events_of(simulation.store(), EXECUTIONS) == 0
        assert tier2.domains[EXECUTIONS].cycles.failures == 1
        assert isinstance(tier2.domains[EXECUTIONS].cycles.problem, Unavailable)
        await simulation.clock.sleep(5 * MINUTE_MS)
        assert await events_of(simulation.store(), EXECUTIONS) == 1
        assert tier2.domains[EXECUTIONS].cycles.problem is None
        assert [operation for operation, _ in reported] == ["compaction of executions"] * 4
        fold_times = [at for domain, at in engine.folds if domain == EXECUTIONS]
        pauses = [later - at for at, later in pairwise(fold_times)]
        assert pauses == sorted(pauses)
        assert pauses[0] >= SECOND_MS
        assert pauses[-1] >= 8 * SECOND_MS
        await tier2.close()
        await running.wait()

    simulate(scenario)


def test_three_idle_domains_cost_at_most_60_requests_an_hour_each() -> None:
    async def scenario(simulation: Calm) -> None:
        for domain in TIER2:
            await LedgerWriter(simulation.store(), domain).append([note(simulation.runtime)])
        store = simulation.store(Role.COMPACTOR)
        keep = {"executions": timedelta(days=3)}  # rows expire while the domains are idle
        tier2 = EventCompactor(store, InProcessEngine(store), retention=keep)
        running = simulation.runtime.tasks.spawn(tier2.run())
        await simulation.clock.sleep(10 * MINUTE_MS + SECOND_MS)
        for _ in range(72):
            before = simulation.requests()
            await simulation.clock.sleep(HOUR_MS)
            assert 0 < simulation.requests() - before <= 60 * len(TIER2)
        await tier2.close()
        before = simulation.requests()
        await simulation.clock.sleep(HOUR_MS)
        assert simulation.requests() == before, "what is closed asks for nothing"
        await running.wait()

    simulate(scenario)


async def test_a_service_that_is_cancelled_anywhere_loses_nothing(runtime: Runtime) -> None:
    bench = open_bench("memory://", runtime)
    store = bench.store(Role.COMPACTOR)
    writer = LedgerWriter(bench.store(), EXECUTIONS)
    for n in range(30):
        await writer.append([started(runtime, f"e{n}")])
        running = asyncio.ensure_future(EventCompactor(store, InProcessEngine(store)).run())
        await asyncio.sleep(n / 3_000)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    await EventCompactor(store, InProcessEngine(store)).once()
    assert await events_of(store, EXECUTIONS) == 30


async def test_a_merge_that_had_to_wait_for_a_backlog_comes_after_it(runtime: Runtime) -> None:
    bench = open_bench("memory://", runtime)
    store = bench.store(Role.COMPACTOR)
    writer = LedgerWriter(bench.store(), EXECUTIONS)
    done: asyncio.Queue[CycleReport] = asyncio.Queue()
    tier2 = EventCompactor(store, InProcessEngine(store), report=done.put_nowait, most_segments=1)
    for n in range(18):
        await writer.append([started(runtime, f"e{n}")])
    running = asyncio.ensure_future(tier2.run())
    kinds = [(await asyncio.wait_for(done.get(), 20)).kind for _ in range(19)]
    assert kinds == [CommitKind.FOLD] * 18 + [CommitKind.MERGE]
    await tier2.close()
    await running


async def test_a_merge_that_fails_is_left_alone_for_a_while_and_cycles_go_on(
    runtime: Runtime,
) -> None:
    bench = open_bench("memory://", runtime)
    store = bench.store(Role.COMPACTOR)
    writer = LedgerWriter(bench.store(), EXECUTIONS)
    reported: list[str] = []
    done: asyncio.Queue[CycleReport] = asyncio.Queue()
    tier2 = EventCompactor(
        store,
        NoMerge(InProcessEngine(store)),
        on_failure=lambda operation, _: reported.append(operation),
        report=done.put_nowait,
    )
    running = asyncio.ensure_future(tier2.run())
    for n in range(20):
        receipt = await writer.append([started(runtime, f"e{n}")])
        tier2.notify(EXECUTIONS, receipt.stream)
        assert (await asyncio.wait_for(done.get(), 20)).counts.events == 1
    assert set(reported) == {"merge of executions"}
    assert len(reported) < 4
    assert tier2.domains[EXECUTIONS].merges.retry_in_ms() > 0
    assert tier2.domains[EXECUTIONS].cycles.retry_in_ms() == 0
    await tier2.close()
    await running


async def test_what_was_never_started_can_be_closed(runtime: Runtime) -> None:
    store = open_bench("memory://", runtime).store(Role.COMPACTOR)
    tier2 = EventCompactor(store, InProcessEngine(store))
    await asyncio.wait_for(tier2.close(), 5)
    await asyncio.wait_for(tier2.run(), 5)
