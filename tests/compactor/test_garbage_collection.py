"""Garbage collection: what is deleted, what is kept, and that no named object is deleted (figure 11)."""

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
from tests.catalog.catalog_setup import all_rows
from tests.compactor.simulated_catalog import (
    RETENTION_MS,
    OnlyMarks,
    PowerCut,
    SimulatedCatalog,
    in_simulated_catalog,
)
from tests.sim.world import HOUR_MS

WEEK = 7 * 24.0


async def lived_in(sim: SimulatedCatalog) -> None:
    """Two days of work, a restart, a merge, a crash and drops; then a week in which little happens."""
    for _ in range(3):
        await sim.create()
        await sim.pass_hours(5)
    await sim.drop()
    await sim.merge()
    await sim.restart()
    await sim.leave_orphans()
    await sim.pass_hours(30)
    await sim.create()
    await sim.drop()
    await sim.pass_hours(WEEK)
    await sim.create()


def test_what_is_old_goes_and_what_is_kept_stays_whole() -> None:
    async def scenario(sim: SimulatedCatalog) -> None:
        await lived_in(sim)
        before = sim.paths()
        done = await sim.collect()
        await sim.assert_whole()
        deleted_paths = set(before) - set(sim.paths())
        for kind, pile in {
            "manifests/": done.manifests,
            "commits/": done.commits,
            "snapshots/": done.files,
            "ledger/": done.segments,
            "sequence/": done.slots,
            "locks/": done.leases,
        }.items():
            assert pile.objects == len([key for key in deleted_paths if key.startswith(kind)]) > 0
            assert pile.bytes > 0
        assert done.total().objects == len(deleted_paths)
        assert done.left.objects == 0

    in_simulated_catalog(scenario)


def test_a_second_collection_finds_nothing_and_publishes_nothing() -> None:
    async def scenario(sim: SimulatedCatalog) -> None:
        await lived_in(sim)
        await sim.collect()
        await sim.pass_hours(0.1)
        before = sim.paths()
        second_report = await sim.collect()
        assert second_report.total().objects == 0
        assert sim.paths() == before

    in_simulated_catalog(scenario)


def test_a_dry_run_changes_nothing_and_says_what_the_next_run_does() -> None:
    async def scenario(sim: SimulatedCatalog) -> None:
        await lived_in(sim)
        before = sim.paths()
        dry_report = await sim.collect(dry_run=True)
        assert set(sim.paths()) - set(before) <= {"_probe/clock.json"}
        done = await sim.collect()
        assert reported(dry_report) == reported(done)
        assert done.total().objects > 20

    in_simulated_catalog(scenario)


def reported(collection: GcReport) -> dict[str, object]:
    """The counts of a collection, without its time."""
    fields = msgspec.structs.asdict(collection)
    return {name: value for name, value in fields.items() if name not in ("dry_run", "mark")}


def test_without_a_compactor_orphan_files_stay_and_are_reported() -> None:
    async def scenario(sim: SimulatedCatalog) -> None:
        await lived_in(sim)
        before = sim.paths("snapshots/")
        done = await sim.collect(with_compactor=False)
        assert done.mark is None
        assert done.files.objects == 0
        assert sim.paths("snapshots/") == before
        assert done.left.objects > 0
        assert done.manifests.objects > 0
        await sim.assert_whole()
        later = await sim.collect()
        assert later.files.objects >= done.left.objects
        assert later.left.objects == 0

    in_simulated_catalog(scenario)


def test_without_a_compactor_what_lies_below_an_earlier_mark_goes() -> None:
    async def scenario(sim: SimulatedCatalog) -> None:
        await sim.leave_orphans()
        await sim.pass_hours(3)
        [orphan, *_] = orphans = await unnamed(sim)
        await sim.compactor.mark_orphans(orphan_mark_at(sim.simulation.clock.now_ms()))
        done = await sim.collect(with_compactor=False)
        assert done.files.objects == len(orphans)
        assert orphan not in sim.paths()
        assert done.left.objects == 0

    in_simulated_catalog(scenario)


async def unnamed(sim: SimulatedCatalog) -> list[str]:
    """The files that no manifest names."""
    named_paths = set()
    chain = manifests_of(sim.store(Role.READER), DOMAIN)
    for entry in await chain.history(await chain.floor(), (await chain.head()).number):
        manifest = read_manifest(entry)
        named_paths |= {ref.path for ref in manifest.named_files()}
        if manifest.base.index is not None:
            named_paths.add(manifest.base.index.path)
    files = [key for key in sim.paths("snapshots/") if "/000-" not in key]
    return [key for key in files if key not in named_paths]


def test_orphans_younger_than_any_attempt_may_live_stay() -> None:
    async def scenario(sim: SimulatedCatalog) -> None:
        await sim.leave_orphans()
        orphans = await unnamed(sim)
        assert orphans
        done = await sim.collect()
        assert done.files.objects == 0
        assert done.mark is None
        assert set(orphans) <= set(sim.paths())
        await sim.pass_hours(2)
        assert (await sim.collect()).files.objects == len(orphans)
        await sim.assert_whole()

    in_simulated_catalog(scenario)


def test_what_strangers_have_put_there_stays() -> None:
    async def scenario(sim: SimulatedCatalog) -> None:
        strange = [
            *("snapshots/catalog/notes.txt", "snapshots/catalog/all/tables/x.parquet"),
            *("commits/catalog/readme.json", "locks/catalog/x.renewal.json"),
            "snapshots/catalog/all/tables/01ARZ3NDEKTSV4RRFFQ69G5FAV.parquet.bak",
        ]
        for path in strange:
            await sim.backend().create(f"tenant=default/workspace=default/{path}", b"?")
        await lived_in(sim)
        await sim.collect()
        assert set(strange) <= set(sim.paths())

    in_simulated_catalog(scenario)


def stalled(
    sim: SimulatedCatalog, visit: Callable[[], Awaitable[GcReport]]
) -> tuple[CatalogCompactor, list[GcReport]]:
    """A compactor that stalls before its first manifest, and the visit that the janitor then pays."""
    visits: list[GcReport] = []

    async def stall(verb: str, key: str) -> None:
        if verb == "create" and "/manifests/" in key and not visits:
            await sim.pass_hours(2.5)
            visits.append(await visit())

    return CatalogCompactor(sim.store(Role.COMPACTOR, before=stall)), visits


def test_a_merge_that_was_under_way_when_the_mark_was_published_names_nothing_that_goes() -> None:
    """The files of the merge are there, unnamed and old, when the janitor comes by."""

    async def scenario(sim: SimulatedCatalog) -> None:
        await sim.create()
        slow, visits = stalled(sim, lambda: sim.collect(compactor=OnlyMarks(sim.compactor)))
        assert await slow.merge() is None
        assert visits[0].files.objects > 0
        await sim.assert_whole()

    in_simulated_catalog(scenario)


def test_a_commit_that_was_under_way_when_the_mark_was_published_is_written_again() -> None:
    async def scenario(sim: SimulatedCatalog) -> None:
        await sim.create()
        await sim.restart()
        slow, visits = stalled(sim, lambda: sim.collect(compactor=OnlyMarks(sim.compactor)))
        await commit_through(sim, slow)
        assert visits[0].files.objects > 0
        await sim.assert_whole()
        assert await has_schema(sim, "slow")

    in_simulated_catalog(scenario)


def test_a_commit_that_is_under_way_keeps_its_record_and_its_files() -> None:
    async def scenario(sim: SimulatedCatalog) -> None:
        await sim.restart()
        slow, visits = stalled(sim, lambda: sim.collect(with_compactor=False))
        await commit_through(sim, slow)
        assert visits[0].left.objects > 0
        assert visits[0].total().objects == 0
        await sim.assert_whole()
        assert await has_schema(sim, "slow")

    in_simulated_catalog(scenario)


async def commit_through(sim: SimulatedCatalog, compactor: CatalogCompactor) -> None:
    committer = sim.committer(compactor)
    with suppress(Unavailable):  # its caller has given up; the commit itself may have landed
        await change(committer, CreateSchema(catalog="default", name="slow"), "user:ann")
    await committer.close()


async def has_schema(sim: SimulatedCatalog, name: str) -> bool:
    snapshot = await SnapshotReader(sim.store(Role.READER)).head()
    return (await snapshot.schema(SchemaName("default", (name,)))).row.name == name


def test_a_reader_of_an_old_snapshot_goes_on_within_the_retention() -> None:
    async def scenario(sim: SimulatedCatalog) -> None:
        await sim.create()
        reader = SnapshotReader(sim.store(Role.READER))
        old = await reader.head()
        expected_rows = sim.rows_by_manifest[old.number]
        for _ in range(11):
            await sim.create()
            await sim.merge()
            await sim.pass_hours(2)
            await sim.collect()
            same_snapshot = await SnapshotReader(reader.store).at_number(old.number)
            assert await all_rows(reader.store, same_snapshot) == expected_rows
        await sim.pass_hours(24)
        await sim.collect()
        assert await manifests_of(reader.store, DOMAIN).floor() > old.number

    in_simulated_catalog(scenario)


def test_a_crash_between_any_two_steps_leaves_everything_readable_and_the_next_run_finishes() -> (
    None
):
    async def scenario(sim: SimulatedCatalog) -> None:
        await lived_in(sim)
        dry_report = await sim.collect(dry_run=True)
        crashes = 0
        while True:
            changes_left = [2]  # so every second change is the last one of its run

            async def cut(verb: str, key: str, changes_left: list[int] = changes_left) -> None:
                if verb in ("delete", "create"):
                    changes_left[0] -= 1
                    if changes_left[0] < 0:
                        raise PowerCut

            try:
                await sim.collect(before=cut)
                break
            except PowerCut:
                crashes += 1
            if crashes % 4 == 0:
                await sim.assert_whole()
        await sim.assert_whole()
        assert crashes * 2 >= dry_report.total().objects - 2
        assert (await sim.collect()).total().objects == 0

    in_simulated_catalog(scenario)


def test_two_janitors_at_once_leave_everything_whole() -> None:
    async def scenario(sim: SimulatedCatalog) -> None:
        await lived_in(sim)
        await sim.simulation.runtime.tasks.gather(sim.collect(), sim.collect(), sim.collect())
        await sim.assert_whole()
        # Each had asked for a merge, and two of those were in vain.
        await sim.pass_hours(3)
        await sim.collect()
        await sim.assert_whole()
        assert (await sim.collect()).total().objects == 0

    in_simulated_catalog(scenario)


def test_dead_streams_are_sealed_and_their_last_segments_stay() -> None:
    async def scenario(sim: SimulatedCatalog) -> None:
        await sim.create()
        sim._committer = None  # killed: its stream has no seal
        await sim.pass_hours(WEEK)
        done = await sim.collect()
        assert done.seals == 1
        await sim.create()
        await sim.pass_hours(WEEK)
        await sim.create()
        await sim.collect()
        streams: dict[str, list[str]] = {}
        for key in sim.paths("ledger/"):
            streams.setdefault(key.split("/")[2], []).append(key)
        assert len(streams) == 3
        for stream, keys in list(streams.items())[:2]:
            raw = await sim.store(Role.JANITOR).get(keys[-1])
            assert decode_segment(raw, stream, int(keys[-1][-18:-6])).seal
        await sim.assert_whole()

    in_simulated_catalog(scenario)


def test_the_slot_of_a_stream_that_is_open_stays_however_old_until_the_stream_is_sealed() -> None:
    async def scenario(sim: SimulatedCatalog) -> None:
        await sim.restart()
        await sim.collect()
        lasting = sim.committer(life_ms=100 * 24 * HOUR_MS)
        await change(lasting, CreateSchema(catalog="default", name="u"), "user:ann")
        await sim.remember()
        slot = sim.paths("sequence/")[-2]  # the last is the hint
        await sim.create()
        await sim.restart()
        await sim.pass_hours(WEEK)
        await sim.create()
        await sim.collect()
        assert slot in sim.paths("sequence/")
        await sim.pass_hours(200 * 24)
        assert (await sim.collect()).seals > 0
        assert slot not in sim.paths("sequence/")
        await sim.assert_whole()

    in_simulated_catalog(scenario)


def test_a_retention_that_is_too_short_is_refused_before_anything_goes() -> None:
    async def scenario(sim: SimulatedCatalog) -> None:
        before = sim.paths()
        with pytest.raises(Invalid):
            await collect_garbage(sim.store(Role.JANITOR), None, retention_ms=1_000)
        assert sim.paths() == before

    in_simulated_catalog(scenario)


def test_an_empty_workspace_has_no_garbage() -> None:
    async def scenario(sim: SimulatedCatalog) -> None:
        for key in list(sim.simulation.objects.keys()):
            await sim.backend().delete(key)
        empty = SimulatedCatalog(sim.simulation, CatalogCompactor(sim.store(Role.COMPACTOR)))
        assert (await empty.collect()).total().objects == 0

    in_simulated_catalog(scenario)


def test_the_janitor_comes_by_every_so_often_and_survives_what_goes_wrong() -> None:
    async def scenario(sim: SimulatedCatalog) -> None:
        down: list[bool] = []
        requests: list[str] = []

        async def fail(verb: str, key: str) -> None:
            if down:
                raise Unavailable("503")

        janitor = Janitor(
            sim.store(Role.JANITOR, before=fail),
            sim.compactor,
            retention_ms=int(RETENTION_MS),
            every_ms=int(HOUR_MS),
            on_inspection=lambda inspection: requests.append(inspection.domain),
        )
        running = sim.simulation.runtime.tasks.spawn(janitor.run())
        await sim.pass_hours(0.1)
        assert janitor.runs == 0
        await sim.pass_hours(3)
        assert janitor.runs == 3
        assert janitor.problem is None
        down.append(True)
        await sim.pass_hours(1)
        assert isinstance(janitor.problem, Unavailable)
        down.clear()
        await sim.pass_hours(1.1)
        assert janitor.problem is None
        assert requests[:4] == list(DOMAINS)
        assert set(janitor.collected_ms) == set(janitor.inspected_ms) == set(DOMAINS)
        janitor.close()
        await running.wait()

    in_simulated_catalog(scenario)


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
    async def scenario(sim: SimulatedCatalog) -> None:
        for step, hours in history:
            await live(sim, step, hours)
        dry_report = await sim.collect(dry_run=True)
        assert reported(dry_report) == reported(await sim.collect())
        await sim.assert_whole()

    in_simulated_catalog(scenario)


async def live(sim: SimulatedCatalog, step: str, hours: float) -> None:
    if step == "create":
        await sim.create()
    elif step == "drop":
        await sim.drop()
    elif step == "merge":
        await sim.merge()
    elif step == "orphans":
        await sim.leave_orphans()
    elif step == "restart":
        await sim.restart()
    elif step == "kill":
        sim._committer = None
    elif step == "pass":
        await sim.pass_hours(hours)
    elif step == "alone":
        await sim.collect(with_compactor=False)
        await sim.assert_whole()
    elif step == "twice":
        await sim.simulation.runtime.tasks.gather(sim.collect(), sim.collect())
        await sim.assert_whole()
    else:
        await sim.collect()
        await sim.assert_whole()
