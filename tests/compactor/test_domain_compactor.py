"""Cycles: every acknowledged event is published exactly once, despite races and crashes."""

import asyncio
import random
from collections import Counter
from datetime import timedelta

import pytest

from arco.catalog.manifest import CommitKind
from arco.compactor.backlog import LINGER_MS
from arco.compactor.catalog_compactor import mark_orphans
from arco.compactor.domain_compactor import DomainCompactor
from arco.compactor.engine import (
    CompactionEngine,
    FoldJob,
    FoldResult,
    JobTooLarge,
    MergeJob,
    MergeResult,
)
from arco.compactor.publisher import Publisher
from arco.core.errors import Corrupt, Unavailable, Unknown
from arco.core.ids import new_ulid
from arco.ledger.segment import Segment, find_segment
from arco.ledger.stream import Watermark, slot_chain
from arco.storage.backend import ObservedBackend
from arco.storage.roles import Role
from tests.compactor.compaction_setup import DOMAIN, CompactionSetup, Slow, open_setup, report_all
from tests.compactor.in_process_engine import InProcessEngine
from tests.request_counter import Tally
from tests.sim.world import SECOND_MS
from tests.storage.interposed import Interposed

DAY = timedelta(days=1)


async def folded_once(setup: CompactionSetup) -> None:
    """Every segment was folded by exactly one commit, and every execution is there."""
    spans: dict[str, int] = {}
    for commit in await setup.commits():
        for stream, (first, last_seq) in commit.streams.items():
            assert first == spans.get(stream, -1) + 1
            spans[stream] = last_seq
    commits = await setup.commits()
    assert sum(each.counts.events for each in commits if each.counts) == len(setup.reported)
    assert await setup.executions() == sorted(setup.reported)


async def test_events_are_published_with_a_watermark_and_their_counts() -> None:
    setup = open_setup()
    writer = setup.writer()
    await setup.report_started(writer, "a", "b")
    setup.clock.pass_ms(700)
    await setup.report_started(writer, "c")
    compactor = setup.compactor()
    cycle = await compactor.cycle()
    assert cycle is not None
    assert (cycle.kind, cycle.manifest, cycle.lag_ms) == (CommitKind.FOLD, 0, 700)
    assert (cycle.counts.events, cycle.counts.segments, cycle.files) == (3, 2, 1)
    assert cycle.size_bytes > 0
    assert list(cycle.phases_ms) == ["find", "fold", "publish"]
    [manifest], [commit] = await setup.manifests(), await setup.commits()
    assert list(manifest.watermark.open.values()) == [1]
    assert list(commit.streams.values()) == [(0, 1)]
    assert commit.counts == cycle.counts
    assert {ref.path for ref in commit.added} == {ref.path for ref in manifest.named_files()}
    assert await setup.executions() == ["a", "b", "c"]
    assert await compactor.cycle(everything=True) is None


async def test_a_cycle_adds_to_the_tail_and_leaves_what_is_there() -> None:
    setup = open_setup()
    compactor = setup.compactor()
    writer = setup.writer()
    for name in "abc":
        await setup.report_started(writer, name)
        assert await compactor.cycle(everything=True) is not None
    first, second, third = await setup.manifests()
    assert first.tail["executions"] == third.tail["executions"][:1]
    assert second.tail["executions"] == third.tail["executions"][:2]
    assert [each.rows_changed_at for each in (first, second, third)] == [0, 1, 2]
    await folded_once(setup)


async def test_a_backlog_is_folded_batch_by_batch() -> None:
    setup = open_setup()
    compactor = setup.compactor(most_segments=8)
    await report_all(setup, [setup.writer() for _ in range(3)], 10)
    is_behind = []
    while await compactor.cycle() is not None:
        is_behind.append(compactor.is_behind)
    assert is_behind == [True, True, True, False]
    await folded_once(setup)


async def test_a_warm_cycle_takes_seven_round_trips() -> None:
    setup, tally = open_setup(), Tally()
    backend = ObservedBackend(setup.backend, tally, setup.clock)
    compactor = setup.compactor(backend=backend)
    writer = setup.writer()
    await setup.report_started(writer, "a")
    await compactor.cycle()
    await setup.report_started(writer, "b")
    compactor.notify((await setup.head()).watermark.open.popitem()[0])
    tally.clear()
    assert await compactor.cycle() is not None
    await compactor.close()
    requests = [(verb, key.split("/")[2]) for verb, key, _ in tally.seen if "head.json" not in key]
    floors = [each for each in tally.seen if "/floor/" in each[1]]  # for the hint, beside the work
    assert len(requests) - len(floors) == 7
    assert Counter(verb for verb, _ in requests) == {
        "get_range": 2,
        "get": 2 + len(floors),
        "create": 3,
    }


async def test_segments_that_were_handed_over_are_neither_looked_for_nor_read() -> None:
    setup, tally = open_setup(), Tally()
    backend = ObservedBackend(setup.backend, tally, setup.clock)
    compactor = setup.compactor(backend=backend)
    writer = setup.writer()
    await setup.report_started(writer, "a")
    await compactor.cycle()
    [stream] = (await setup.head()).watermark.open
    for name in "bcdefg":
        await setup.report_started(writer, name)
    handed = [await find_segment(setup.store(), DOMAIN, stream, seq) for seq in (1, 2, 3, 5, 6)]
    compactor.notify(stream, handed=[each for each in handed if each is not None])
    tally.clear()
    cycle = await compactor.cycle()
    assert cycle is not None
    assert cycle.counts.segments == 6
    requests = [(verb, key.rpartition("/")[2]) for verb, key, _ in tally.seen if "/ledger/" in key]
    read = [name for verb, name in requests if verb == "get"]
    assert read == ["000000000004.jsonl"]  # the one that was not handed over
    await folded_once(setup)
    for name in "hi":
        await setup.report_started(writer, name)
    last_segments = [await find_segment(setup.store(), DOMAIN, stream, seq) for seq in (7, 8)]
    compactor.notify(stream, handed=[each for each in last_segments if each is not None])
    tally.clear()
    assert await compactor.cycle() is not None
    requests = [(verb, key.rpartition("/")[2]) for verb, key, _ in tally.seen if "/ledger/" in key]
    assert requests == [("get_range", "000000000009.jsonl")]
    await folded_once(setup)


async def test_handed_bytes_that_are_not_those_of_the_segment_are_not_folded() -> None:
    setup = open_setup()
    compactor = setup.compactor()
    writer = setup.writer()
    await setup.report_started(writer, "a")
    await compactor.cycle()
    [stream] = (await setup.head()).watermark.open
    await setup.report_started(writer, "b")
    other = await find_segment(setup.store(), DOMAIN, stream, 0)
    assert other is not None
    compactor.notify(stream, handed=[Segment(stream, 1, False, other.raw)])
    with pytest.raises(Corrupt, match="says that it is segment 0"):
        await compactor.cycle()
    assert await compactor.cycle() is not None  # from the store
    await folded_once(setup)


# Slots and seals


async def test_a_stream_without_events_waits_a_while_before_it_is_published_alone() -> None:
    setup = open_setup()
    writer = setup.writer()
    compactor = setup.compactor()
    await setup.report_started(writer, "a")
    assert await compactor.cycle() is not None
    await writer.close()
    setup.clock.pass_ms(SECOND_MS)
    assert await compactor.cycle() is None
    assert compactor.due_in_ms() <= LINGER_MS
    setup.clock.pass_ms(LINGER_MS)
    alone = await compactor.cycle()
    assert alone is not None
    assert (alone.files, alone.counts.events, alone.lag_ms) == (0, 0, None)
    head = await setup.head()
    assert head.watermark == Watermark(1, {})
    assert head.rows_changed_at == 0
    assert list((await setup.commits())[-1].streams.values()) == [(1, 1)]


async def test_a_seal_that_waits_is_published_with_the_next_events() -> None:
    setup = open_setup()
    compactor = setup.compactor()
    first = setup.writer()
    await setup.report_started(first, "a")
    await compactor.cycle()
    await first.close()
    setup.clock.pass_ms(SECOND_MS)
    assert await compactor.cycle() is None
    await setup.report_started(setup.writer(), "b")
    setup.clock.pass_ms(SECOND_MS)
    assert await compactor.cycle() is not None
    manifests = await setup.manifests()
    assert len(manifests) == 2
    assert manifests[-1].watermark.frontier == 2
    assert list(manifests[-1].watermark.open.values()) == [0]
    await folded_once(setup)


async def test_a_seal_that_was_found_and_not_published_is_found_again() -> None:
    setup = open_setup()
    writer = setup.writer()
    await setup.report_started(writer, "a")
    first = setup.compactor()
    await first.cycle()
    await writer.close()
    setup.clock.pass_ms(SECOND_MS)
    assert await first.cycle() is None
    second_cycle = await setup.compactor().cycle(everything=True)
    assert second_cycle is not None
    assert (await setup.head()).watermark == Watermark(1, {})


# Races


class Uneven(Slow):
    """An engine that takes now longer, now shorter."""

    def __init__(self, engine: CompactionEngine, rng: random.Random) -> None:
        super().__init__(engine)
        self._rng = rng

    async def fold(self, job: FoldJob) -> FoldResult:
        await asyncio.sleep(self._rng.random() / 200)
        return await super().fold(job)


@pytest.mark.parametrize("seed", range(3))
async def test_two_compactors_at_once_publish_every_event_exactly_once(seed: int) -> None:
    setup, rng = open_setup(), random.Random(seed)
    writers = [setup.writer() for _ in range(3)]
    engines = [Uneven(InProcessEngine(setup.store()), rng) for _ in range(2)]
    both = [setup.compactor(engine, most_segments=4) for engine in engines]
    reporting = asyncio.ensure_future(report_all(setup, writers, 20))

    async def compact(compactor: DomainCompactor) -> int:
        count = 0
        while not reporting.done():
            count += await compactor.cycle(everything=True) is not None
            await asyncio.sleep(0)
        while await compactor.cycle(everything=True) is not None:
            count += 1
        return count

    published = await asyncio.gather(*map(compact, both))
    assert sum(published) == len(await setup.manifests())
    assert sum(len(engine.jobs) for engine in engines) > sum(published), "they have never met"
    await folded_once(setup)


async def test_who_is_overtaken_by_another_fold_begins_again_from_its_watermark() -> None:
    setup = open_setup()
    writer = setup.writer()
    await setup.report_started(writer, "a")
    slow = Slow(InProcessEngine(setup.store()))
    compactor = setup.compactor(slow)

    async def meanwhile() -> None:
        await setup.compactor().cycle()
        await setup.report_started(writer, "b")

    slow.meanwhile = meanwhile
    cycle = await compactor.cycle()
    assert cycle is not None
    assert (cycle.manifest, cycle.counts.events) == (1, 1)
    assert [[each.seq for each in job.segments] for job in slow.jobs] == [[0], [1]]
    await folded_once(setup)


async def test_a_compactor_that_finds_the_work_done_gives_its_engine_nothing() -> None:
    setup = open_setup()
    writer = setup.writer()
    watched = Slow(InProcessEngine(setup.store()))
    late_compactor = setup.compactor(watched)
    assert await late_compactor.cycle() is None
    await setup.report_started(writer, "a")
    assert await setup.compactor().cycle() is not None
    assert await late_compactor.cycle(everything=True) is None
    assert watched.jobs == []


async def test_a_cycle_is_published_over_a_mark_and_a_merge_that_came_meanwhile() -> None:
    setup = open_setup()
    writer = setup.writer()
    for n in range(16):
        await setup.report_started(writer, f"old{n}")
        await setup.compactor().cycle()
    watched = Slow(InProcessEngine(setup.store()))
    compactor = setup.compactor(watched)
    await setup.report_started(writer, "new")

    async def meanwhile() -> None:
        assert await setup.compactor().merge() is not None
        await mark_orphans(Publisher(setup.store(), DOMAIN), "0" * 26)
        setup.clock.pass_ms(1)

    watched.meanwhile = meanwhile
    cycle = await compactor.cycle()
    assert cycle is not None
    assert len(watched.jobs) == 1
    kinds = [each.kind for each in await setup.commits()][-3:]
    assert kinds == [CommitKind.MERGE, CommitKind.MARK, CommitKind.FOLD]
    assert len((await setup.head()).tail["executions"]) == 2
    await folded_once(setup)


async def test_a_cycle_whose_files_may_have_been_collected_is_done_again() -> None:
    setup = open_setup()
    writer = setup.writer()
    await setup.report_started(writer, "a")
    await setup.compactor().cycle()
    await setup.report_started(writer, "b")
    watched = Slow(InProcessEngine(setup.store()))

    async def meanwhile() -> None:
        setup.clock.pass_ms(1)
        await mark_orphans(Publisher(setup.store(), DOMAIN), new_ulid(setup.runtime))

    watched.meanwhile = meanwhile
    assert await setup.compactor(watched).cycle() is not None
    first, second = (job.attempt for job in watched.jobs)
    head = await setup.head()
    assert head.orphans_before is not None
    assert first <= head.orphans_before < second
    assert second in head.tail["executions"][-1].path
    await folded_once(setup)


# Deaths


class PowerCut(Exception):
    """Here everything ends."""


class Dying:
    """A backend that dies at its n-th request, or whose n-th answer is lost with it."""

    def __init__(self, setup: CompactionSetup, at: int, *, after: bool) -> None:
        self.requests = 0
        self.at = at
        step = {"after": self._step} if after else {"before": self._step}
        self.backend = Interposed(setup.backend, **step)

    async def _step(self, verb: str, key: str) -> None:
        if "head.json" in key or "/floor/" in key:
            return  # of a hint, which is written beside the work
        self.requests += 1
        if self.requests == self.at:
            raise PowerCut


@pytest.mark.parametrize("after", [False, True])
async def test_a_compactor_that_dies_at_any_request_loses_and_doubles_nothing(
    *, after: bool
) -> None:
    at, died = 0, True
    while died:
        at += 1
        setup = open_setup()
        writer = setup.writer()
        await setup.report_started(writer, "a", "b")
        await setup.compactor().cycle()
        await setup.report_started(writer, "c")
        await writer.close()
        await setup.report_started(setup.writer(), "d")
        dying = Dying(setup, at, after=after)
        compactor = setup.compactor(backend=dying.backend)
        died = False
        try:
            assert await compactor.cycle() is not None
        except PowerCut:
            died = True
        if died:
            await setup.compactor().cycle(everything=True)
        await folded_once(setup)
        # Who was not killed but only stumbled goes on as well.
        dying.at = 0
        await setup.report_started(setup.writer(), "e")
        assert await compactor.cycle(everything=True) is not None
        await folded_once(setup)
    assert at > 10


class Failing:
    """An engine that fails so many times, before or after it has made its files."""

    def __init__(self, engine: CompactionEngine, times: int, *, after: bool = False) -> None:
        self._engine = engine
        self._times = times
        self._after = after
        self.sizes: list[int] = []

    async def fold(self, job: FoldJob) -> FoldResult:
        self.sizes.append(len(job.segments))
        if self._after or self._times <= 0:
            folded = await self._engine.fold(job)
        if self._times > 0:
            self._times -= 1
            raise Unavailable("the engine is gone")
        return folded

    async def merge(self, job: MergeJob) -> MergeResult:
        raise AssertionError("nothing is to be merged here")


@pytest.mark.parametrize("after", [False, True])
async def test_an_engine_that_fails_leaves_nothing_published_and_everything_to_be_found(
    *, after: bool
) -> None:
    setup = open_setup()
    await report_all(setup, [setup.writer(), setup.writer()], 8)
    failing = Failing(InProcessEngine(setup.store()), 2, after=after)
    compactor = setup.compactor(failing, most_segments=16)
    for _ in range(2):
        with pytest.raises(Unavailable):
            await compactor.cycle()
        assert (await Publisher(setup.store(), DOMAIN).chain.head()).number == -1
    while await compactor.cycle(everything=True) is not None:
        pass
    await folded_once(setup)
    assert failing.sizes[:3] == [16, 4, 2], "after a failure it tries with less"
    assert max(failing.sizes[3:]) > 2, "and then with more again"


class Bounded:
    """An engine that takes no more than three segments at once, if it may say so."""

    def __init__(self, engine: CompactionEngine) -> None:
        self._engine = engine
        self.sizes: list[int] = []

    async def fold(self, job: FoldJob) -> FoldResult:
        if job.divisible and len(job.segments) > 3:
            raise JobTooLarge(3)
        self.sizes.append(len(job.segments))
        return await self._engine.fold(job)

    async def merge(self, job: MergeJob) -> MergeResult:
        raise AssertionError("nothing is to be merged here")


@pytest.mark.parametrize("writers", [1, 2, 7])
async def test_what_is_too_much_for_one_publication_is_published_in_several(writers: int) -> None:
    setup = open_setup()
    await report_all(setup, [setup.writer() for _ in range(writers)], 8)
    bounded = Bounded(InProcessEngine(setup.store()))
    compactor = setup.compactor(bounded)
    while await compactor.cycle(everything=True) is not None:
        pass
    await folded_once(setup)
    assert sum(bounded.sizes) == 8 * writers
    assert max(bounded.sizes) <= max(3, writers), "of each stream one segment at least"


async def test_a_cycle_that_is_cancelled_is_done_by_the_next() -> None:
    setup = open_setup()
    await setup.report_started(setup.writer(), "a")
    watched = Slow(InProcessEngine(setup.store()))
    compactor = setup.compactor(watched)

    async def for_ever() -> None:
        await asyncio.sleep(3_600)

    watched.meanwhile = for_ever
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(compactor.cycle(), 0.2)
    assert await compactor.cycle() is not None
    await folded_once(setup)


class Doubtful:
    """The answer to the create of a manifest is lost for good; whether it lands is ours to say."""

    def __init__(self, setup: CompactionSetup, *, lands: bool) -> None:
        self._lands = lands
        self.doubts = 0
        self.backend = Interposed(setup.backend, before=self._before, after=self._after)

    async def _before(self, verb: str, key: str) -> None:
        if not self._lands:
            await self._lose(verb, key)

    async def _after(self, verb: str, key: str) -> None:
        if self._lands:
            await self._lose(verb, key)

    async def _lose(self, verb: str, key: str) -> None:
        # While the store fails, reading does not help; afterwards it works again.
        if verb == "create" and "/manifests/" in key:
            self.doubts = 8
        if self.doubts > 0 and "/manifests/" in key and "head.json" not in key:
            self.doubts -= 1
            raise Unavailable("no answer")


async def test_a_manifest_of_unknown_outcome_that_has_landed_is_found_by_looking() -> None:
    setup = open_setup()
    await setup.report_started(setup.writer(), "a")
    doubtful = Doubtful(setup, lands=True)
    compactor = setup.compactor(backend=doubtful.backend)
    cycle = await compactor.cycle()
    assert cycle is not None
    assert cycle.manifest == 0
    assert await compactor.cycle(everything=True) is None
    await folded_once(setup)


async def test_a_manifest_of_unknown_outcome_that_has_not_landed_is_an_error_and_then_done_again() -> (
    None
):
    setup = open_setup()
    await setup.report_started(setup.writer(), "a")
    doubtful = Doubtful(setup, lands=False)
    compactor = setup.compactor(backend=doubtful.backend)
    with pytest.raises(Unknown):
        await compactor.cycle()
    assert (await Publisher(setup.store(), DOMAIN).chain.head()).number == -1
    assert await setup.compactor().cycle() is not None
    assert await compactor.cycle(everything=True) is None
    await folded_once(setup)


async def test_a_watermark_below_collected_slots_with_no_newer_one_is_corrupt() -> None:
    setup = open_setup()
    for name in "abc":
        await setup.report_started(setup.writer(), name)
    janitor = setup.store(Role.JANITOR)
    await slot_chain(janitor, DOMAIN).raise_floor(2)
    await janitor.delete(slot_chain(janitor, DOMAIN).key(0))
    with pytest.raises(Corrupt):
        await setup.compactor().cycle()
