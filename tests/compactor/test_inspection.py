"""Inspection: lost objects are found and named, and what is safe is repaired."""

from arco.catalog.manifest import manifests_of
from arco.compactor.inspection import (
    Inspection,
    InspectionProblem,
    InspectionProblemKind,
    inspect_domain,
)
from arco.core import json
from arco.ledger.segment import find_segment, segment_key
from arco.ledger.stream import slot_chain
from arco.storage.hint import Hint, read_hint
from arco.storage.roles import Role
from tests.compactor.simulated_catalog import SimulatedCatalog, in_simulated_catalog
from tests.compactor.simulated_domain import (
    DOMAIN,
    LIFE_MS,
    RETENTION_MS,
    SimulatedDomain,
    in_simulated_domain,
)
from tests.sim.world import HOUR_MS

LIFE_HOURS = LIFE_MS / HOUR_MS


async def look(sim: SimulatedDomain, *, repair: bool = True) -> Inspection:
    return await inspect_domain(sim.store(Role.JANITOR), DOMAIN, repair=repair)


async def one(sim: SimulatedDomain) -> InspectionProblem:
    """The one thing that is wrong."""
    [problem] = (await look(sim)).troubles
    assert problem.next_step
    return problem


async def busy(sim: SimulatedDomain) -> str:
    """Two streams, one of them closed; folds, a merge, and something that waits. The open stream."""
    await sim.append_events(3)
    await sim.fold()
    await sim.restart()
    await sim.append_events(2)
    await sim.fold()
    await sim.merge()
    return await sim.append_events(2)


def test_a_domain_in_which_all_is_well_is_counted() -> None:
    async def scenario(sim: SimulatedDomain) -> None:
        await busy(sim)
        report = await look(sim)
        assert report.ok, report.troubles
        assert (report.domain, report.head, report.streams) == (DOMAIN, 2, 1)
        assert report.segments == 7 + 1  # and a seal
        assert report.waiting == 2
        assert report.lag_ms is not None
        assert report.lag_ms < HOUR_MS
        assert (report.sealed, report.orphans.objects) == ((), 0)

    in_simulated_domain(scenario)


def test_an_empty_domain_is_well() -> None:
    async def scenario(sim: SimulatedDomain) -> None:
        report = await look(sim)
        assert (report.ok, report.head, report.segments) == (True, -1, 0)

    in_simulated_domain(scenario)


def test_a_segment_that_is_lost_below_a_later_one_is_named() -> None:
    async def scenario(sim: SimulatedDomain) -> None:
        stream = await busy(sim)
        await sim.remove(segment_key(DOMAIN, stream, 2))
        problem = await one(sim)
        assert problem.kind is InspectionProblemKind.SEGMENT
        assert problem.path == segment_key(DOMAIN, stream, 2)
        assert "lost" in problem.explanation

    in_simulated_domain(scenario)


def test_a_segment_that_a_rebuild_would_need_is_missed() -> None:
    async def scenario(sim: SimulatedDomain) -> None:
        stream = await sim.append_events(3)
        await sim.fold()
        await sim.append_events(3)
        await sim.fold()
        await sim.remove(segment_key(DOMAIN, stream, 1))  # folded by the oldest manifest
        assert (await look(sim)).ok
        await sim.remove(segment_key(DOMAIN, stream, 4))
        problem = await one(sim)
        assert problem.path == segment_key(DOMAIN, stream, 4)
        assert "rebuilt" in problem.explanation

    in_simulated_domain(scenario)


def test_a_watermark_ahead_of_what_exists_is_reported() -> None:
    async def scenario(sim: SimulatedDomain) -> None:
        stream = await sim.append_events()
        await sim.fold()
        await sim.append_events()
        await sim.fold()
        await sim.remove(segment_key(DOMAIN, stream, 1))  # the last: nothing is above it
        problem = await one(sim)
        assert (problem.kind, problem.path) == (
            InspectionProblemKind.SEGMENT,
            segment_key(DOMAIN, stream, 1),
        )
        await sim.remove("sequence/executions/head.json")
        await sim.remove(f"sequence/{DOMAIN}/{0:012d}.json")
        kinds = {each.kind for each in (await look(sim)).troubles}
        assert InspectionProblemKind.WATERMARK in kinds

    in_simulated_domain(scenario)


def test_a_stream_that_no_slot_names_is_reported_and_one_whose_slot_was_collected_is_not() -> None:
    async def scenario(sim: SimulatedDomain) -> None:
        stray = await sim.append_events(2)
        sim.kill()
        await sim.remove(f"sequence/{DOMAIN}/{0:012d}.json")
        await sim.remove(f"sequence/{DOMAIN}/head.json")
        problem = await one(sim)
        assert (problem.kind, problem.path) == (
            InspectionProblemKind.STREAM,
            f"ledger/{DOMAIN}/{stray}/",
        )

    in_simulated_domain(scenario)

    async def sealed(sim: SimulatedDomain) -> None:
        await sim.append_events(2)
        await sim.restart()
        await sim.pass_hours(0.01)
        for name in (f"{0:012d}.json", "head.json"):
            await sim.remove(f"sequence/{DOMAIN}/{name}")
        # No slot was ever collected, so its seal says nothing.
        assert (await one(sim)).kind is InspectionProblemKind.STREAM

    in_simulated_domain(sealed)

    async def collected(sim: SimulatedDomain) -> None:
        stream = await sim.append_events(2)
        await sim.restart()
        await sim.append_events()
        await sim.fold()
        await sim.pass_hours(2 * RETENTION_MS / HOUR_MS)
        await sim.fold()
        await sim.collect()
        assert await slot_chain(sim.store(Role.JANITOR), DOMAIN).floor() == 1
        assert sim.paths(f"ledger/{DOMAIN}/{stream}/") == [segment_key(DOMAIN, stream, 2)]
        report = await look(sim)
        assert report.ok, report.troubles
        await sim.remove(segment_key(DOMAIN, stream, 2))
        assert (await look(sim)).ok  # nothing in the store names it any more

    in_simulated_domain(collected)


def test_a_stream_past_its_end_is_sealed_and_its_events_are_not_lost() -> None:
    async def scenario(sim: SimulatedDomain) -> None:
        stream = await sim.append_events(2)
        await sim.fold()
        await sim.append_events()
        sim.kill()
        assert (await look(sim)).sealed == ()
        await sim.pass_hours(LIFE_HOURS + 1)
        assert (await look(sim, repair=False)).sealed == (stream,)
        assert await find_segment(sim.store(Role.JANITOR), DOMAIN, stream, 3) is None
        assert (await look(sim)).sealed == (stream,)
        end = await find_segment(sim.store(Role.JANITOR), DOMAIN, stream, 3)
        assert end is not None
        assert end.seal
        assert (await look(sim)).sealed == ()
        await sim.fold()
        report = await look(sim)
        assert (report.streams, report.waiting, report.ok) == (0, 0, True)

    in_simulated_domain(scenario)


def test_a_closed_stream_that_has_lost_its_seal_is_reported() -> None:
    async def scenario(sim: SimulatedDomain) -> None:
        stream = await sim.append_events(2)
        await sim.restart()
        await sim.fold()
        assert (await look(sim)).ok
        await sim.remove(segment_key(DOMAIN, stream, 2))
        problem = await one(sim)
        assert problem.kind is InspectionProblemKind.SEAL

    in_simulated_domain(scenario)


def test_a_hint_above_the_head_is_reported_and_one_far_behind_is_rewritten() -> None:
    async def scenario(sim: SimulatedDomain) -> None:
        for _ in range(70):
            await sim.append_events()
            await sim.fold()
        await sim.pass_hours(0.01)  # until the last hint was written beside it
        path = f"manifests/{DOMAIN}/head.json"
        old = Hint(format=1, number=3, floor_index=-1, floor=0)
        await sim.overwrite(path, json.encode(old))
        assert path in (await look(sim)).hints
        hint = await read_hint(sim.store(Role.JANITOR), path)
        assert hint is not None
        assert hint.number == 69
        assert path not in (await look(sim)).hints
        await sim.overwrite(path, b"nonsense")
        assert path in (await look(sim)).hints
        bad_hint = Hint(format=1, number=71, floor_index=-1, floor=0)
        await sim.overwrite(path, json.encode(bad_hint))
        problem = await one(sim)
        assert problem.kind is InspectionProblemKind.CHAIN
        assert "71" in problem.explanation

    in_simulated_domain(scenario)


def test_a_missing_manifest_is_reported_without_its_consequences() -> None:
    async def scenario(sim: SimulatedDomain) -> None:
        await busy(sim)
        await sim.remove(f"manifests/{DOMAIN}/{1:020d}.json")
        problem = await one(sim)
        assert (problem.kind, problem.path) == (
            InspectionProblemKind.CHAIN,
            f"manifests/{DOMAIN}/{1:020d}.json",
        )

    in_simulated_domain(scenario)


def test_orphan_files_are_counted_once_they_are_old_and_lost_files_are_named() -> None:
    async def scenario(sim: SimulatedDomain) -> None:
        await busy(sim)
        await sim.leave_orphans()
        assert (await look(sim)).orphans.objects == 0  # they may be under way
        await sim.pass_hours(3)
        await sim.fold()
        report = await look(sim)
        assert report.ok, report.troubles
        assert report.orphans.objects == 2
        assert report.orphans.bytes > 0
        manifests = await sim.manifests()
        lost = manifests[0].tail["executions"][0].path
        await sim.remove(lost)
        problem = await one(sim)
        assert (problem.kind, problem.path) == (InspectionProblemKind.FILE, lost)

    in_simulated_domain(scenario)


def test_events_that_wait_for_too_long_are_reported_but_not_a_seal() -> None:
    async def scenario(sim: SimulatedDomain) -> None:
        await sim.append_events()
        await sim.fold()
        await sim.restart()
        await sim.pass_hours(1)
        assert (await look(sim)).ok
        stream = await sim.append_events()
        await sim.pass_hours(1)
        problem = await one(sim)
        assert problem.kind is InspectionProblemKind.LAG
        assert problem.path == segment_key(DOMAIN, stream, 0)
        await sim.fold()
        assert (await look(sim)).ok

    in_simulated_domain(scenario)


def test_what_is_collected_while_it_looks_is_not_missed() -> None:
    """The janitor and the inspection of two machines."""

    async def scenario(sim: SimulatedDomain) -> None:
        for _ in range(4):
            await sim.append_events(2)
            await sim.fold()
            await sim.pass_hours(10)
        collected: list[bool] = []

        async def collect(verb: str, key: str) -> None:
            if verb == "list" and "/sequence/" in key and not collected:
                collected.append(True)
                await sim.collect()

        store = sim.store(Role.JANITOR, before=collect)
        report = await inspect_domain(store, DOMAIN)
        assert collected
        assert await manifests_of(store, DOMAIN).floor() > 0
        assert report.ok, report.troubles

    in_simulated_domain(scenario)


def test_the_catalog_is_looked_at_too() -> None:
    async def scenario(sim: SimulatedCatalog) -> None:
        await sim.create()
        await sim.leave_orphans()
        await sim.pass_hours(7)
        report = await inspect_domain(sim.store(Role.JANITOR), "catalog")
        assert report.ok, report.troubles
        assert report.orphans.objects > 0
        assert len(report.sealed) == 2
        await sim.assert_whole()

    in_simulated_catalog(scenario)
