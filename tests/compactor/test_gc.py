"""Garbage collection: what goes, what stays, and that nothing which is named ever goes (figure 11)."""

from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.catalog.change import change
from arco.catalog.ddl import CreateSchema, SchemaName
from arco.catalog.manifest import manifests_of, read_manifest
from arco.catalog.reader import SnapshotReader
from arco.compactor.catalog_compactor import CatalogCompactor
from arco.compactor.domains import DOMAINS
from arco.compactor.garbage_collection import GcReport, collect_garbage
from arco.compactor.janitor import Janitor
from arco.compactor.kept_manifests import attempt_in_path, orphan_mark_at
from arco.core.errors import Invalid, Unavailable
from arco.fold.tier1 import DOMAIN
from arco.ledger.segment import decode_segment
from arco.storage.roles import Role
from tests.catalog.workshop import all_rows
from tests.compactor.yard import RETENTION_MS, OnlyMarks, PowerCut, Yard, in_yard
from tests.sim.world import HOUR_MS

WEEK = 7 * 24.0


async def lived_in(yard: Yard) -> None:
    """Two days of work, a restart, a merge, a crash and drops; then a week in which little happens."""
    for _ in range(3):
        await yard.create()
        await yard.pass_hours(5)
    await yard.drop()
    await yard.merge()
    await yard.restart()
    await yard.leave_orphans()
    await yard.pass_hours(30)
    await yard.create()
    await yard.drop()
    await yard.pass_hours(WEEK)
    await yard.create()


def test_what_is_old_goes_and_what_is_kept_stays_whole() -> None:
    async def story(yard: Yard) -> None:
        await lived_in(yard)
        before = yard.paths()
        done = await yard.collect()
        await yard.assert_whole()
        gone = set(before) - set(yard.paths())
        for kind, pile in {
            "manifests/": done.manifests,
            "commits/": done.commits,
            "snapshots/": done.files,
            "ledger/": done.segments,
            "sequence/": done.slots,
            "locks/": done.leases,
        }.items():
            assert pile.objects == len([key for key in gone if key.startswith(kind)]) > 0
            assert pile.bytes > 0
        assert done.total().objects == len(gone)
        assert done.left.objects == 0

    in_yard(story)


def test_a_second_collection_finds_nothing_and_publishes_nothing() -> None:
    async def story(yard: Yard) -> None:
        await lived_in(yard)
        await yard.collect()
        await yard.pass_hours(0.1)
        before = yard.paths()
        again = await yard.collect()
        assert again.total().objects == 0
        assert yard.paths() == before

    in_yard(story)


def test_a_dry_run_changes_nothing_and_says_what_the_next_run_does() -> None:
    async def story(yard: Yard) -> None:
        await lived_in(yard)
        before = yard.paths()
        said = await yard.collect(dry_run=True)
        assert set(yard.paths()) - set(before) <= {"_probe/clock.json"}
        done = await yard.collect()
        assert told(said) == told(done)
        assert done.total().objects > 20

    in_yard(story)


def told(collection: GcReport) -> dict[str, object]:
    """What a collection tells, but for the moment at which it was."""
    fields = msgspec.structs.asdict(collection)
    return {name: value for name, value in fields.items() if name not in ("dry_run", "mark")}


def test_without_a_compactor_files_that_nobody_names_stay_and_are_told_of() -> None:
    async def story(yard: Yard) -> None:
        await lived_in(yard)
        before = yard.paths("snapshots/")
        done = await yard.collect(with_compactor=False)
        assert done.mark is None
        assert done.files.objects == 0
        assert yard.paths("snapshots/") == before
        assert done.left.objects > 0
        assert done.manifests.objects > 0
        await yard.assert_whole()
        later = await yard.collect()
        assert later.files.objects >= done.left.objects
        assert later.left.objects == 0

    in_yard(story)


def test_without_a_compactor_what_lies_below_an_earlier_mark_goes() -> None:
    async def story(yard: Yard) -> None:
        await yard.leave_orphans()
        await yard.pass_hours(3)
        [orphan, *_] = orphans = await unnamed(yard)
        await yard.compactor.mark_orphans(orphan_mark_at(yard.calm.clock.now_ms()))
        done = await yard.collect(with_compactor=False)
        assert done.files.objects == len(orphans)
        assert orphan not in yard.paths()
        assert done.left.objects == 0

    in_yard(story)


async def unnamed(yard: Yard) -> list[str]:
    """The files that no manifest names."""
    named = set()
    chain = manifests_of(yard.store(Role.READER), DOMAIN)
    for entry in await chain.history(await chain.floor(), (await chain.head()).number):
        manifest = read_manifest(entry)
        named |= {ref.path for ref in manifest.named()}
        if manifest.base.index is not None:
            named.add(manifest.base.index.path)
    files = [key for key in yard.paths("snapshots/") if "/000-" not in key]
    return [key for key in files if key not in named]


def test_orphans_younger_than_any_attempt_may_live_stay() -> None:
    async def story(yard: Yard) -> None:
        await yard.leave_orphans()
        orphans = await unnamed(yard)
        assert orphans
        done = await yard.collect()
        assert done.files.objects == 0
        assert done.mark is None
        assert set(orphans) <= set(yard.paths())
        await yard.pass_hours(2)
        assert (await yard.collect()).files.objects == len(orphans)
        await yard.assert_whole()

    in_yard(story)


def test_what_strangers_have_put_there_stays() -> None:
    async def story(yard: Yard) -> None:
        strange = [
            *("snapshots/catalog/notes.txt", "snapshots/catalog/all/tables/x.parquet"),
            *("commits/catalog/readme.json", "locks/catalog/x.renewal.json"),
            "snapshots/catalog/all/tables/01ARZ3NDEKTSV4RRFFQ69G5FAV.parquet.bak",
        ]
        for path in strange:
            await yard.backend().create(f"tenant=default/workspace=default/{path}", b"?")
        await lived_in(yard)
        await yard.collect()
        assert set(strange) <= set(yard.paths())

    in_yard(story)


def stalled(
    yard: Yard, visit: Callable[[], Awaitable[GcReport]]
) -> tuple[CatalogCompactor, list[GcReport]]:
    """A compactor that stalls before its first manifest, and the visit that the janitor then pays."""
    visits: list[GcReport] = []

    async def stall(verb: str, key: str) -> None:
        if verb == "create" and "/manifests/" in key and not visits:
            await yard.pass_hours(2.5)
            visits.append(await visit())

    return CatalogCompactor(yard.store(Role.COMPACTOR, before=stall)), visits


def test_a_merge_that_was_under_way_when_the_mark_was_published_names_nothing_that_goes() -> None:
    """The files of the merge are there, unnamed and old, when the janitor comes by."""

    async def story(yard: Yard) -> None:
        await yard.create()
        slow, visits = stalled(yard, lambda: yard.collect(compactor=OnlyMarks(yard.compactor)))
        assert await slow.merge() is None
        assert visits[0].files.objects > 0
        await yard.assert_whole()

    in_yard(story)


def test_a_commit_that_was_under_way_when_the_mark_was_published_is_written_anew() -> None:
    async def story(yard: Yard) -> None:
        await yard.create()
        await yard.restart()
        slow, visits = stalled(yard, lambda: yard.collect(compactor=OnlyMarks(yard.compactor)))
        await commit_through(yard, slow)
        assert visits[0].files.objects > 0
        await yard.assert_whole()
        assert await has_schema(yard, "slow")

    in_yard(story)


def test_a_commit_that_is_under_way_keeps_its_record_and_its_files() -> None:
    async def story(yard: Yard) -> None:
        await yard.restart()
        slow, visits = stalled(yard, lambda: yard.collect(with_compactor=False))
        await commit_through(yard, slow)
        assert visits[0].left.objects > 0
        assert visits[0].total().objects == 0
        await yard.assert_whole()
        assert await has_schema(yard, "slow")

    in_yard(story)


async def commit_through(yard: Yard, compactor: CatalogCompactor) -> None:
    committer = yard.committer(compactor)
    with suppress(Unavailable):  # its caller has given up; the commit itself may have landed
        await change(committer, CreateSchema(catalog="default", name="slow"), "user:ann")
    await committer.close()


async def has_schema(yard: Yard, name: str) -> bool:
    snapshot = await SnapshotReader(yard.store(Role.READER)).head()
    return (await snapshot.schema(SchemaName("default", (name,)))).row.name == name


def test_a_reader_of_an_old_snapshot_goes_on_within_the_retention() -> None:
    async def story(yard: Yard) -> None:
        await yard.create()
        reader = SnapshotReader(yard.store(Role.READER))
        old = await reader.head()
        wanted = yard.said[old.number]
        for _ in range(11):
            await yard.create()
            await yard.merge()
            await yard.pass_hours(2)
            await yard.collect()
            again = await SnapshotReader(reader.store).at_number(old.number)
            assert await all_rows(reader.store, again) == wanted
        await yard.pass_hours(24)
        await yard.collect()
        assert await manifests_of(reader.store, DOMAIN).floor() > old.number

    in_yard(story)


def test_a_crash_between_any_two_steps_leaves_everything_readable_and_the_next_run_finishes() -> (
    None
):
    async def story(yard: Yard) -> None:
        await lived_in(yard)
        wanted = await yard.collect(dry_run=True)
        crashes = 0
        while True:
            left = [2]  # so every second change is the last one of its run

            async def cut(verb: str, key: str, left: list[int] = left) -> None:
                if verb in ("delete", "create"):
                    left[0] -= 1
                    if left[0] < 0:
                        raise PowerCut

            try:
                await yard.collect(before=cut)
                break
            except PowerCut:
                crashes += 1
            if crashes % 4 == 0:
                await yard.assert_whole()
        await yard.assert_whole()
        assert crashes * 2 >= wanted.total().objects - 2
        assert (await yard.collect()).total().objects == 0

    in_yard(story)


def test_two_janitors_at_once_leave_everything_whole() -> None:
    async def story(yard: Yard) -> None:
        await lived_in(yard)
        await yard.calm.runtime.tasks.gather(yard.collect(), yard.collect(), yard.collect())
        await yard.assert_whole()
        # Each had asked for a merge, and two of those were in vain.
        await yard.pass_hours(3)
        await yard.collect()
        await yard.assert_whole()
        assert (await yard.collect()).total().objects == 0

    in_yard(story)


def test_dead_streams_are_sealed_and_their_last_segments_stay() -> None:
    async def story(yard: Yard) -> None:
        await yard.create()
        yard._committer = None  # killed: nobody has sealed its stream
        await yard.pass_hours(WEEK)
        done = await yard.collect()
        assert done.seals == 1
        await yard.create()
        await yard.pass_hours(WEEK)
        await yard.create()
        await yard.collect()
        streams: dict[str, list[str]] = {}
        for key in yard.paths("ledger/"):
            streams.setdefault(key.split("/")[2], []).append(key)
        assert len(streams) == 3
        for stream, keys in list(streams.items())[:2]:
            raw = await yard.store(Role.JANITOR).get(keys[-1])
            assert decode_segment(raw, stream, int(keys[-1][-18:-6])).seal
        await yard.assert_whole()

    in_yard(story)


def test_the_slot_of_a_stream_that_is_open_stays_however_old_until_the_stream_is_sealed() -> None:
    async def story(yard: Yard) -> None:
        await yard.restart()
        await yard.collect()
        lasting = yard.committer(life_ms=100 * 24 * HOUR_MS)
        await change(lasting, CreateSchema(catalog="default", name="u"), "user:ann")
        await yard.remember()
        slot = yard.paths("sequence/")[-2]  # the last is the hint
        await yard.create()
        await yard.restart()
        await yard.pass_hours(WEEK)
        await yard.create()
        await yard.collect()
        assert slot in yard.paths("sequence/")
        await yard.pass_hours(200 * 24)
        assert (await yard.collect()).seals > 0
        assert slot not in yard.paths("sequence/")
        await yard.assert_whole()

    in_yard(story)


def test_a_retention_that_is_too_short_is_refused_before_anything_goes() -> None:
    async def story(yard: Yard) -> None:
        before = yard.paths()
        with pytest.raises(Invalid):
            await collect_garbage(yard.store(Role.JANITOR), None, retention_ms=1_000)
        assert yard.paths() == before

    in_yard(story)


def test_an_empty_workspace_has_no_garbage() -> None:
    async def story(yard: Yard) -> None:
        for key in list(yard.calm.objects.keys()):
            await yard.backend().delete(key)
        empty = Yard(yard.calm, CatalogCompactor(yard.store(Role.COMPACTOR)))
        assert (await empty.collect()).total().objects == 0

    in_yard(story)


def test_the_janitor_comes_by_every_so_often_and_survives_what_goes_wrong() -> None:
    async def story(yard: Yard) -> None:
        down: list[bool] = []
        seen: list[str] = []

        async def fail(verb: str, key: str) -> None:
            if down:
                raise Unavailable("503")

        janitor = Janitor(
            yard.store(Role.JANITOR, before=fail),
            yard.compactor,
            retention_ms=int(RETENTION_MS),
            every_ms=int(HOUR_MS),
            on_inspection=lambda inspection: seen.append(inspection.domain),
        )
        running = yard.calm.runtime.tasks.spawn(janitor.run())
        await yard.pass_hours(0.1)
        assert janitor.runs == 0
        await yard.pass_hours(3)
        assert janitor.runs == 3
        assert janitor.problem is None
        down.append(True)
        await yard.pass_hours(1)
        assert isinstance(janitor.problem, Unavailable)
        down.clear()
        await yard.pass_hours(1.1)
        assert janitor.problem is None
        assert seen[:4] == list(DOMAINS)
        assert set(janitor.collected_ms) == set(janitor.inspected_ms) == set(DOMAINS)
        janitor.close()
        await running.wait()

    in_yard(story)


def test_the_attempt_is_read_off_every_kind_of_file_and_nothing_else() -> None:
    ulid = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
    assert attempt_in_path(f"snapshots/catalog/all/tables/{ulid}.parquet") == ulid
    assert attempt_in_path(f"snapshots/catalog/all/tables/063-{ulid}.parquet") == ulid
    assert attempt_in_path(f"snapshots/catalog/index/{ulid}.json") == ulid
    for name in (f"{ulid}.txt", f"{ulid.lower()}.parquet", f"x{ulid}.parquet", "063.parquet"):
        assert attempt_in_path(f"snapshots/catalog/all/tables/{name}") is None
    assert attempt_in_path(f"warehouse/{ulid}.parquet") is None


steps = st.one_of(
    *(st.just((name, 0.0)) for name in ("create", "drop", "merge", "orphans", "restart", "kill")),
    st.tuples(st.just("pass"), st.sampled_from([0.5, 3.0, 11.0, 23.0, 30.0, 200.0])),
    *(st.just((name, 0.0)) for name in ("collect", "alone", "twice")),
)


@settings(max_examples=12)
@given(st.lists(steps, min_size=4, max_size=12))
def test_nothing_that_is_named_is_ever_deleted(history: list[tuple[str, float]]) -> None:
    async def story(yard: Yard) -> None:
        for step, hours in history:
            await live(yard, step, hours)
        said = await yard.collect(dry_run=True)
        assert told(said) == told(await yard.collect())
        await yard.assert_whole()

    in_yard(story)


async def live(yard: Yard, step: str, hours: float) -> None:
    if step == "create":
        await yard.create()
    elif step == "drop":
        await yard.drop()
    elif step == "merge":
        await yard.merge()
    elif step == "orphans":
        await yard.leave_orphans()
    elif step == "restart":
        await yard.restart()
    elif step == "kill":
        yard._committer = None
    elif step == "pass":
        await yard.pass_hours(hours)
    elif step == "alone":
        await yard.collect(with_compactor=False)
        await yard.assert_whole()
    elif step == "twice":
        await yard.calm.runtime.tasks.gather(yard.collect(), yard.collect())
        await yard.assert_whole()
    else:
        await yard.collect()
        await yard.assert_whole()
