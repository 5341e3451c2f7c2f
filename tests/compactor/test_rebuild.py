"""A rebuild gives the same rows, from any part of the ledger that is kept, beside a running compactor."""

import random
from datetime import timedelta

import pytest

from arco.catalog.manifest import CommitKind, read_index
from arco.compactor.catalog_compactor import CatalogCompactor, mark_orphans
from arco.compactor.engine import FoldJob, FoldResult, MergeJob, MergeResult
from arco.compactor.garbage_collection import collect_garbage
from arco.compactor.publisher import Publisher
from arco.compactor.rebuild import rebuild
from arco.compactor.tail_merge import TailPolicy
from arco.compactor.verification import verify
from arco.core.clock import utc
from arco.core.errors import Corrupt, Invalid
from arco.core.ids import new_ulid
from arco.ledger.segment import segment_key
from arco.storage.roles import Role
from tests.compactor.compaction_setup import (
    DOMAIN,
    CompactionSetup,
    Slow,
    Stamped,
    open_setup,
    open_stamped,
)
from tests.compactor.in_process_engine import InProcessEngine
from tests.sim.world import MINUTE_MS
from tests.storage.interposed import Interposed

DAY = timedelta(days=1)
DAY_MS = DAY / timedelta(milliseconds=1)
SOON = TailPolicy(longest=4, many_rows=10)
NO_MERGE = TailPolicy(longest=10_000, many_rows=10**9)


class Marking:
    """A backend through which, before the first manifest is created, all older files become orphans."""

    def __init__(self, setup: CompactionSetup) -> None:
        self._plant = setup
        self.marked = False
        self.backend = Interposed(setup.backend, before=self._before)

    async def _before(self, verb: str, key: str) -> None:
        if verb == "create" and "/manifests/" in key and not self.marked:
            self.marked = True
            self._plant.clock.pass_ms(1)
            mark = new_ulid(self._plant.runtime)
            await mark_orphans(Publisher(self._plant.store(), DOMAIN), mark)


class Leisurely:
    """An engine whose jobs take most of an hour, after each of which garbage is collected."""

    def __init__(self, stamped: Stamped) -> None:
        self._stamped = stamped
        self._engine = InProcessEngine(stamped.setup.store())
        self.jobs = 0
        self.collected = 0

    async def fold(self, job: FoldJob) -> FoldResult:
        folded = await self._engine.fold(job)
        await self._take(50)
        return folded

    async def merge(self, job: MergeJob) -> MergeResult:
        merged = await self._engine.merge(job)
        await self._take(20)
        return merged

    async def _take(self, minutes: float) -> None:
        self._stamped.pass_ms(minutes * MINUTE_MS)
        setup = self._stamped.setup
        done = await collect_garbage(
            setup.store(Role.JANITOR), CatalogCompactor(setup.store()), domain=DOMAIN
        )
        self.jobs += 1
        self.collected += done.files.objects


async def live(
    setup: CompactionSetup, seed: int, rounds: int, *, retention_days: int | None = None
) -> None:
    """A life: writers come and go, events are late or come twice, tails are merged, days pass."""
    rng = random.Random(seed)
    writer = setup.writer()
    retention = {} if retention_days is None else {"executions": retention_days * DAY}
    compactor = setup.compactor(policy=SOON, retention=retention)
    for _ in range(rounds):
        for _ in range(rng.randint(1, 3)):
            name = f"e{rng.randrange(40)}"
            at = utc(setup.clock.now_ms()) - rng.random() * 3 * DAY
            event = rng.choice([setup.started, setup.completed])(name, at=at)
            await writer.append([event, event] if rng.random() < 0.2 else [event])
            if rng.random() < 0.1:
                await writer.append([setup.event("no_such_event", {})])
        if rng.random() < 0.2:
            await writer.close()
            writer = setup.writer()
        setup.clock.pass_ms(rng.random() * DAY_MS)
        await compactor.cycle(everything=True)
        await compactor.merge()


@pytest.mark.parametrize("seed", range(4))
async def test_a_rebuild_gives_the_same_rows(seed: int) -> None:
    setup = open_setup(seed)
    await live(setup, seed, 25)
    before, old = await setup.rows(hidden=True), await setup.head()
    store = setup.store()
    done = await rebuild(store, DOMAIN, InProcessEngine(store), most_segments=7)
    new = await setup.head()
    assert await setup.rows(hidden=True) == before
    assert done.manifest == len(await setup.manifests()) - 1
    assert done.start == -1
    assert done.counts.events == sum(
        c.counts.events for c in (await setup.commits())[:-1] if c.counts
    )
    assert (new.watermark, new.retained_from) == (old.watermark, old.retained_from)
    assert new.tail == {}
    assert new.base.index is not None
    index = await read_index(store, new.base.index)
    named_paths = {ref.path for files in index.tables.values() for ref in files.values()}
    named_paths |= {ref.path for ref in new.named_files()} | {new.base.index.path}
    record = (await setup.commits())[-1]
    assert record.kind is CommitKind.REBUILD
    assert {ref.path for ref in record.added} == named_paths, (
        "the rebuild writes all files that it names"
    )
    assert done.files == len(named_paths) - 1
    report = await verify(setup.store(Role.JANITOR), DOMAIN, everything=True)
    assert report.ok, report.problem


@pytest.mark.parametrize("seed", range(6))
async def test_a_rebuild_leaves_out_what_merges_have_left_out(seed: int) -> None:
    setup = open_setup(seed)
    await live(setup, seed, 30, retention_days=2)
    commits, manifests = await setup.commits(), await setup.manifests()
    forgetful = [
        record.number
        for record, manifest in zip(commits, manifests, strict=True)
        if record.kind is CommitKind.MERGE and manifest.rows_changed_at == record.number
    ]
    assert forgetful, "nothing was ever forgotten in this life"
    assert sum(each.counts.late for each in commits if each.counts), "and nothing was late"
    before = await setup.rows(hidden=True)
    store = setup.store()
    await rebuild(store, DOMAIN, InProcessEngine(store))
    assert await setup.rows(hidden=True) == before


async def test_the_state_after_a_rebuild_goes_on_as_if_nothing_had_been() -> None:
    setup = open_setup()
    await live(setup, 1, 8)
    store = setup.store()
    await rebuild(store, DOMAIN, InProcessEngine(store))
    await live(setup, 2, 8)
    before = await setup.rows(hidden=True)
    second_rebuild = await rebuild(store, DOMAIN, InProcessEngine(store))
    assert second_rebuild.start == -1
    assert await setup.rows(hidden=True) == before


@pytest.mark.parametrize("collected", [3, 5, 9])
async def test_a_rebuild_starts_from_the_oldest_manifest_whose_later_segments_are_kept(
    collected: int,
) -> None:
    setup = open_setup()
    writer, compactor = setup.writer(), setup.compactor(policy=NO_MERGE)
    for n in range(10):
        await setup.report_started(writer, f"e{n}")
        await compactor.cycle(everything=True)
        await writer.append([setup.completed(f"e{n}")])
    await compactor.cycle(everything=True)
    before = await setup.rows(hidden=True)
    janitor = setup.store(Role.JANITOR)
    stream = next(iter((await setup.head()).watermark.open))
    for seq in range(2 * collected):
        await janitor.delete(segment_key(DOMAIN, stream, seq))
    store = setup.store()
    done = await rebuild(store, DOMAIN, InProcessEngine(store))
    assert done.start == collected
    assert done.counts.segments == 20 - (2 * collected + 1)
    assert await setup.rows(hidden=True) == before


async def test_a_rebuild_starts_above_the_floor() -> None:
    setup = open_setup()
    await live(setup, 3, 12)
    before = await setup.rows(hidden=True)
    janitor = setup.store(Role.JANITOR)
    chain = Publisher(janitor, DOMAIN).chain
    await chain.raise_floor(5)
    for number in range(5):
        await janitor.delete(chain.key(number))
    store = setup.store()
    assert (await rebuild(store, DOMAIN, InProcessEngine(store))).start == 5
    assert await setup.rows(hidden=True) == before


async def test_a_segment_that_is_missing_in_the_middle_stops_a_rebuild() -> None:
    setup = open_setup()
    writer = setup.writer()
    for n in range(5):
        await setup.report_started(writer, f"e{n}")
    await setup.compactor().cycle()
    head = await setup.head()
    stream = next(iter(head.watermark.open))
    await setup.store(Role.JANITOR).delete(segment_key(DOMAIN, stream, 3))
    with pytest.raises(Corrupt):
        await rebuild(setup.store(), DOMAIN, InProcessEngine(setup.store()))
    assert await setup.head() == head


async def test_a_rebuild_follows_what_is_published_meanwhile() -> None:
    setup = open_setup()
    await live(setup, 4, 6)
    slow = Slow(InProcessEngine(setup.store()))

    async def meanwhile() -> None:
        await live(setup, 5, 6)

    slow.meanwhile = meanwhile
    done = await rebuild(setup.store(), DOMAIN, slow)
    commits = await setup.commits()
    assert commits[-1].kind is CommitKind.REBUILD
    assert done.counts.events == sum(c.counts.events for c in commits[:-1] if c.counts)
    assert (await setup.head()).tail != {}, "what came meanwhile is in the tail"
    twice = await setup.rows(hidden=True)
    await rebuild(setup.store(), DOMAIN, InProcessEngine(setup.store()))
    assert await setup.rows(hidden=True) == twice


async def test_a_rebuild_is_published_over_a_merge_that_changes_no_rows() -> None:
    setup = open_setup()
    writer, compactor = setup.writer(), setup.compactor(policy=NO_MERGE)
    for n in range(8):
        await setup.report_started(writer, f"e{n}")
        await compactor.cycle(everything=True)
    slow = Slow(InProcessEngine(setup.store()))

    async def meanwhile() -> None:
        assert await setup.compactor(policy=SOON).merge() is not None

    slow.meanwhile = meanwhile
    assert (await rebuild(setup.store(), DOMAIN, slow)).counts.events == 8
    assert len(slow.jobs) == 1
    assert await setup.executions() == sorted(setup.reported)


async def test_a_rebuild_whose_files_may_have_been_collected_writes_them_again() -> None:
    setup = open_setup()
    await live(setup, 6, 6)
    before = await setup.rows(hidden=True)
    backend = Marking(setup)
    done = await rebuild(
        setup.store(backend=backend.backend), DOMAIN, InProcessEngine(setup.store())
    )
    head = await setup.head()
    assert backend.marked
    assert head.orphans_before is not None
    assert done.manifest == len(await setup.manifests()) - 1
    assert await setup.rows(hidden=True) == before
    index = head.base.index
    assert index is not None
    tables = (await read_index(setup.store(), index)).tables
    refs = [ref for files in tables.values() for ref in files.values()]
    assert refs
    assert all(ref.path.partition("-")[2] > head.orphans_before for ref in refs)


async def test_a_rebuild_that_takes_longer_than_files_without_a_name_are_kept_comes_to_its_end() -> (
    None
):
    stamped = open_stamped()
    setup = stamped.setup
    writer, compactor = setup.writer(), setup.compactor(policy=NO_MERGE)
    for n in range(24):
        await setup.report_started(writer, f"e{n}")
        await compactor.cycle(everything=True)
        await writer.append([setup.event("no_such_event", {})])
        stamped.pass_ms(MINUTE_MS)
    before = await setup.rows(hidden=True)
    engine = Leisurely(stamped)
    done = await rebuild(setup.store(), DOMAIN, engine, most_segments=4)
    assert done.counts.segments == 47
    assert engine.jobs > 10
    assert engine.collected, "nothing of what it has made was ever collected"
    assert await setup.rows(hidden=True) == before
    report = await verify(setup.store(Role.JANITOR), DOMAIN, everything=True)
    assert report.ok, report.problem


async def test_all_tables_of_a_rebuild_are_written_by_one_job() -> None:
    setup = open_setup()
    await live(setup, 1, 8)
    assert len(await setup.rows()) > 1, "there is but one table"
    engine = Slow(InProcessEngine(setup.store()))
    await rebuild(setup.store(), DOMAIN, engine)
    assert len(engine.merges) == 1


async def test_what_a_merge_has_left_out_is_left_out_of_all_tables_by_two_jobs() -> None:
    setup = open_setup()
    retention = {"executions": 2 * DAY, "quarantine": 2 * DAY}
    writer = setup.writer()
    compactor = setup.compactor(policy=TailPolicy(longest=2, many_rows=1), retention=retention)
    await setup.report_started(writer, *map(str, range(20)))
    await writer.append([setup.event("no_such_event", {})])
    await compactor.cycle(everything=True)
    setup.clock.pass_ms(3 * DAY_MS)
    await compactor.cycle(everything=True)
    await setup.report_started(writer, "new")
    await writer.append([setup.event("no_such_event", {})])
    await compactor.cycle(everything=True)
    assert await compactor.merge() is not None
    before = await setup.rows(hidden=True)
    assert [len(rows) for rows in before.values()] == [1, 1]
    engine = Slow(InProcessEngine(setup.store()))
    await rebuild(setup.store(), DOMAIN, engine)
    assert await setup.rows(hidden=True) == before
    forgetful = [job for job in engine.merges if job.retained_from]
    assert [{part.table for part in job.parts} for job in forgetful] == [
        {"executions", "quarantine"}
    ]
    assert len(engine.merges) <= 3


async def test_there_is_nothing_to_rebuild_where_nothing_was_published() -> None:
    setup = open_setup()
    with pytest.raises(Invalid):
        await rebuild(setup.store(), DOMAIN, InProcessEngine(setup.store()))


async def test_a_rebuild_forgets_what_a_merge_has_forgotten_meanwhile() -> None:
    """It had written its base by then, and the rows that came with the merge were lost."""
    setup = open_setup()
    writer, store = setup.writer(), setup.store()
    soon = TailPolicy(longest=2, many_rows=1)
    compactor = setup.compactor(policy=soon, retention={"executions": 2 * DAY})
    await setup.report_started(writer, "old", "older")
    await compactor.cycle(everything=True)
    engine, rows_by_table = Slow(InProcessEngine(store)), dict[str, list[dict[str, object]]]()

    async def go_on() -> None:
        setup.clock.pass_ms(3 * DAY_MS)
        await setup.report_started(writer, "new")
        await compactor.cycle(everything=True)
        await compactor.merge()
        rows_by_table.update(await setup.rows(hidden=True))

    engine.meanwhile = go_on
    await rebuild(store, DOMAIN, engine)
    kinds = [each.kind for each in await setup.commits()]
    assert kinds[-2:] == [CommitKind.MERGE, CommitKind.REBUILD]
    assert [row["execution_id"] for row in rows_by_table["executions"]] == ["new"]
    assert await setup.rows(hidden=True) == rows_by_table
