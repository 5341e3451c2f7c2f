"""Garbage of event domains: what is deleted, and that the state can be rebuilt (P16, P20, P27)."""

from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.compactor.garbage_collection import GcReport
from arco.compactor.kept_manifests import orphan_mark_at
from arco.core.errors import Invalid, NotFound
from arco.ledger.segment import find_segment, segment_key
from arco.ledger.stream import Watermark, slot_chain
from arco.storage.roles import Role
from tests.compactor.simulated_domain import (
    DOMAIN,
    RETENTION_MS,
    SimulatedDomain,
    all_rows,
    in_simulated_domain,
    read_on,
)
from tests.sim.world import HOUR_MS

DAY = RETENTION_MS / HOUR_MS


async def lived_in(sim: SimulatedDomain) -> None:
    """Some days of folds, a merge, restarts, crashes; then a little of the present."""
    for _ in range(4):
        await sim.append_events(3)
        await sim.fold()
        await sim.pass_hours(8)
    await sim.restart()
    await sim.merge()
    await sim.leave_orphans()
    sim.kill()
    await sim.pass_hours(2 * DAY)
    for _ in range(3):
        await sim.append_events(2)
        await sim.fold()
        await sim.pass_hours(5)


def keys_of(rows: Iterable[dict[str, object]]) -> set[str]:
    return {str(row["execution_id"]) for row in rows}


async def assert_rebuildable(sim: SimulatedDomain) -> None:
    """From the oldest kept manifest on, all segments that were folded since are there."""
    store = sim.store(Role.JANITOR)
    manifests = await sim.manifests()
    if not manifests:
        return
    first, newest = manifests[min(manifests)], manifests[max(manifests)]
    since = await folded_since(sim, first.watermark, newest.watermark)
    rows = await all_rows(store, first)
    refolded_keys = keys_of(rows["executions"].to_pylist() if "executions" in rows else []) | since
    published = await all_rows(store, newest)
    assert refolded_keys == keys_of(published["executions"].to_pylist())


async def folded_since(sim: SimulatedDomain, old: Watermark, new: Watermark) -> set[str]:
    """The executions in the segments between two watermarks, read as a rebuild would read them."""
    segments, _ = await read_on(sim.store(Role.JANITOR), old)
    return {
        f"{each.stream}-{each.seq:04d}-{line}"
        for each in segments
        if each.seq <= new.open.get(each.stream, each.seq)
        for line, _ in enumerate(each.lines, 1)
        if each.stream in new.open or await is_closed(sim, each.stream, new)
    }


async def is_closed(sim: SimulatedDomain, stream: str, mark: Watermark) -> bool:
    """Whether a stream that is not open was, as far as a watermark goes."""
    slots = slot_chain(sim.store(Role.JANITOR), DOMAIN)
    for number in range(await slots.floor(), mark.frontier):
        entry = await slots.find(number)
        if entry is not None and stream.encode() in entry.raw:
            return True
    return False


async def assert_whole(sim: SimulatedDomain) -> None:
    report = await sim.verify()
    assert report.ok, report.problem
    await assert_rebuildable(sim)


def test_what_is_old_goes_and_what_is_kept_stays_whole() -> None:
    async def scenario(sim: SimulatedDomain) -> None:
        await lived_in(sim)
        before = sim.paths()
        done = await sim.collect()
        await assert_whole(sim)
        deleted_paths = set(before) - set(sim.paths())
        for kinds, pile in {
            ("manifests/",): done.manifests,
            ("commits/",): done.commits,
            ("state/", "quarantine/"): done.files,
            ("ledger/",): done.segments,
            ("sequence/",): done.slots,
        }.items():
            assert pile.objects == len([key for key in deleted_paths if key.startswith(kinds)]) > 0
            assert pile.bytes > 0
        assert any(key.startswith("quarantine/") for key in deleted_paths)
        assert done.total().objects == len(deleted_paths)
        assert (done.domain, done.keys.objects, done.left.objects) == (DOMAIN, 0, 0)
        assert done.mark is not None

    in_simulated_domain(scenario)


def test_a_dry_run_changes_nothing_and_says_what_the_next_run_does() -> None:
    async def scenario(sim: SimulatedDomain) -> None:
        await lived_in(sim)
        before = sim.paths()
        dry_report = await sim.collect(dry_run=True)
        assert set(sim.paths()) - set(before) <= {"_probe/clock.json"}
        done = await sim.collect()
        assert figures(dry_report) == figures(done)
        assert done.total().objects > 20
        second_report = await sim.collect()
        assert second_report.total().objects == 0

    in_simulated_domain(scenario)


def figures(collection: GcReport) -> dict[str, object]:
    fields = msgspec.structs.asdict(collection)
    return {name: value for name, value in fields.items() if name not in ("dry_run", "mark")}


def test_segments_that_kept_manifests_have_folded_stay_but_for_those_of_the_oldest() -> None:
    async def scenario(sim: SimulatedDomain) -> None:
        stream = await sim.append_events(2)
        await sim.fold()
        await sim.pass_hours(2 * DAY)
        late_stream = await sim.append_events(2)
        await sim.fold()
        await sim.pass_hours(DAY / 2)
        await sim.collect()  # the second manifest is younger than the retention: both stay
        assert sorted(await sim.manifests()) == [0, 1]
        assert segment_key(DOMAIN, stream, 1) not in sim.paths("ledger/")
        assert segment_key(DOMAIN, late_stream, 0) in sim.paths("ledger/")
        await assert_whole(sim)
        await sim.pass_hours(DAY)
        await sim.collect()
        assert sorted(await sim.manifests()) == [1]
        assert segment_key(DOMAIN, late_stream, 0) not in sim.paths("ledger/")
        await assert_whole(sim)

    in_simulated_domain(scenario)


def test_what_was_never_folded_is_never_deleted_however_old() -> None:
    async def scenario(sim: SimulatedDomain) -> None:
        stream = await sim.append_events(3)
        sim.kill()
        await sim.pass_hours(10 * DAY)
        done = await sim.collect()  # nothing was ever published
        assert (done.segments.objects, done.slots.objects, done.seals) == (0, 0, 1)
        end = await find_segment(sim.store(Role.JANITOR), DOMAIN, stream, 3)
        assert end is not None
        assert end.seal
        await sim.fold()
        manifest = (await sim.manifests())[0]
        assert manifest.watermark == Watermark(1, {})
        assert len((await all_rows(sim.store(Role.JANITOR), manifest))["executions"]) == 3

    in_simulated_domain(scenario)


def test_a_seal_stays_and_a_writer_that_wakes_up_late_meets_it() -> None:
    async def scenario(sim: SimulatedDomain) -> None:
        stream = await sim.append_events()
        sleeper = sim._writer
        sim.kill()
        await sim.pass_hours(DAY)
        await sim.collect()
        await sim.fold()
        await sim.pass_hours(3 * DAY)
        await sim.fold()
        await sim.pass_hours(2 * DAY)
        await sim.collect()
        assert sim.paths(f"ledger/{DOMAIN}/{stream}/") == [segment_key(DOMAIN, stream, 1)]
        sim._writer = sleeper
        assert await sim.append_events() != stream
        await sim.fold()
        assert sim.reported == 2
        await assert_whole(sim)

    in_simulated_domain(scenario)


def test_segments_of_an_unknown_stream_that_was_not_ended_stay() -> None:
    async def scenario(sim: SimulatedDomain) -> None:
        await lived_in(sim)
        raw = await sim.store(Role.API).get(sim.paths(f"ledger/{DOMAIN}/")[-1])
        stray = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
        for seq in range(3):
            ours = raw.replace(raw[raw.index(b"stream") + 9 :][:26], stray.encode())
            ours = ours.replace(b'"seq":1', b'"seq":%d' % seq)
            await sim.overwrite(segment_key(DOMAIN, stray, seq), ours)
        await sim.pass_hours(3 * DAY)
        await sim.collect()
        assert len(sim.paths(f"ledger/{DOMAIN}/{stray}/")) == 3

    in_simulated_domain(scenario)


def test_slots_go_once_their_streams_are_closed_and_a_new_compactor_finds_its_way() -> None:
    async def scenario(sim: SimulatedDomain) -> None:
        for _ in range(3):
            await sim.append_events()
            await sim.restart()
            await sim.fold()
        last_stream = await sim.append_events()
        await sim.fold()
        await sim.pass_hours(2 * DAY)
        done = await sim.collect()
        assert done.slots.objects == 3
        slots = slot_chain(sim.store(Role.JANITOR), DOMAIN)
        assert await slots.floor() == 3
        assert last_stream in (await slots.read(3)).raw.decode()
        await sim.append_events()
        await sim.fold()
        await assert_whole(sim)

    in_simulated_domain(scenario)


def test_files_of_tier_2_go_only_below_a_mark_in_their_own_domain() -> None:
    async def scenario(sim: SimulatedDomain) -> None:
        await sim.append_events()
        await sim.fold()
        await sim.leave_orphans()
        files = sim.paths("state/") + sim.paths("quarantine/")
        await sim.pass_hours(3)
        alone = await sim.collect(alone=True)
        assert (alone.files.objects, alone.left.objects) == (0, 2)
        assert sim.paths("state/") + sim.paths("quarantine/") == files
        done = await sim.collect()
        assert (done.files.objects, done.left.objects) == (2, 0)
        [*_, head] = (await sim.manifests()).values()
        assert head.orphans_before == done.mark
        assert head.watermark != Watermark()  # carried over by the mark
        with pytest.raises(Invalid, match="nothing to mark"):
            await sim.compactor().mark_orphans(
                orphan_mark_at(sim.simulation.clock.now_ms()), "lineage"
            )
        with pytest.raises(Invalid, match="no domain"):
            await sim.compactor().mark_orphans(
                orphan_mark_at(sim.simulation.clock.now_ms()), "nothing"
            )
        await sim.fold()
        await assert_whole(sim)

    in_simulated_domain(scenario)


def test_a_collection_that_dies_anywhere_leaves_a_whole_state_and_the_next_one_finishes() -> None:
    class Dead(Exception):
        pass

    async def scenario(sim: SimulatedDomain) -> None:
        await lived_in(sim)
        for at in range(0, 200, 7):
            count = 0

            async def die(verb: str, key: str, at: int = at) -> None:
                nonlocal count
                count += verb in ("delete", "create")
                if count > at:
                    raise Dead

            try:
                await sim.collect(before=die)
            except Dead:
                await assert_whole(sim)
                continue
            break
        else:
            raise AssertionError("it never ended")
        assert (await sim.collect()).total().objects == 0
        await assert_whole(sim)

    in_simulated_domain(scenario)


def test_two_janitors_at_once_delete_the_same_objects() -> None:
    """Found by chance: one raised the floor of the slots while the other was about to read them."""

    async def scenario(sim: SimulatedDomain) -> None:
        for _ in range(3):
            await lived_in(sim)
            await sim.simulation.runtime.tasks.gather(*(sim.collect() for _ in range(4)))
            await assert_whole(sim)
            report = await sim.collect()  # the records of marks that have lost their number
            assert report.total().objects == report.commits.objects
            assert (await sim.collect()).total().objects == 0

    in_simulated_domain(scenario)


steps = st.one_of(
    st.sampled_from(["append", "fold", "merge", "orphans", "restart", "kill", "collect", "twice"]),
    st.sampled_from([0.5, 3.0, 11.0, 30.0, 60.0]),
)


@settings(max_examples=15)
@given(st.lists(steps, min_size=4, max_size=14))
def test_the_state_can_always_be_rebuilt_from_the_oldest_kept_manifest(
    history: list[str | float],
) -> None:
    async def scenario(sim: SimulatedDomain) -> None:
        await sim.append_events()
        await sim.fold()
        for step in history:
            await live(sim, step)
        dry_report = await sim.collect(dry_run=True)
        assert figures(dry_report) == figures(await sim.collect())
        await assert_whole(sim)

    in_simulated_domain(scenario)


async def live(sim: SimulatedDomain, step: str | float) -> None:
    if isinstance(step, float):
        await sim.pass_hours(step)
    elif step == "append":
        await sim.append_events(2)
    elif step == "fold":
        await sim.fold()
    elif step == "merge":
        await sim.merge()
    elif step == "orphans":
        await sim.leave_orphans()
    elif step == "restart":
        await sim.restart()
    elif step == "kill":
        sim.kill()
    elif step == "twice":
        await sim.simulation.runtime.tasks.gather(sim.collect(), sim.collect())
        await assert_whole(sim)
    else:
        await sim.collect()
        await assert_whole(sim)


def test_nothing_of_another_domain_is_touched() -> None:
    async def scenario(sim: SimulatedDomain) -> None:
        await lived_in(sim)
        copies = {
            path.replace(DOMAIN, "lineage", 1): await sim.store(Role.JANITOR).get(path)
            for path in sim.paths()
            if f"/{DOMAIN}/" in path
        }
        for path, raw in copies.items():
            await sim.overwrite(path, raw)
        await sim.pass_hours(3 * DAY)
        await sim.collect()
        assert set(copies) <= set(sim.paths())
        with pytest.raises(NotFound):
            await sim.store(Role.JANITOR).get(f"manifests/{DOMAIN}/{0:020d}.json")

    in_simulated_domain(scenario)
