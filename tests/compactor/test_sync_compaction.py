"""Synchronous compaction: on which base, with which token, and how a repeated call is answered."""

from contextlib import nullcontext
from datetime import timedelta

import msgspec
import pytest

from arco.catalog.compactor_port import SyncCompact
from arco.catalog.manifest import CommitKind, read_commit
from arco.compactor.catalog_compactor import CatalogCompactor
from arco.core.errors import Conflict, Denied, Fenced, Invalid
from arco.core.ids import new_ulid
from arco.storage.chain import Chain
from arco.storage.roles import Role
from tests.catalog.workshop import Workshop, is_lost, names_in, new_table, open_workshop, started


async def call_for(workshop: Workshop, name: str) -> SyncCompact:
    """A call that was decided against the head, and has not arrived yet."""
    workshop.post.next(is_lost)
    with pytest.raises(Exception, match="connection"):
        await workshop.api.do(new_table(name, "id bigint"))
    return workshop.post.calls[-1]


def renamed(call: SyncCompact, workshop: Workshop, **changes: object) -> SyncCompact:
    """The same work as another commit."""
    fresh: SyncCompact = msgspec.structs.replace(
        call, **({"commit_ulid": new_ulid(workshop.runtime)} | changes)
    )
    return fresh


async def test_the_events_of_a_call_become_one_commit() -> None:
    workshop = await started()
    call = await call_for(workshop, "a")
    answer = await workshop.compactor.sync_compact(call)
    assert (answer.manifest_version, answer.commit_ulid) == (2, call.commit_ulid)
    manifest = (await workshop.manifests())[-1]
    assert manifest.rows_changed_at == 2
    assert manifest.fencing_token == call.fencing_token
    commit = await read_commit(workshop.store(Role.READER), manifest.commit)
    assert (commit.kind, commit.number, commit.commit_ulid) == (CommitKind.DDL, 2, call.commit_ulid)
    [deed] = commit.deeds
    assert (deed.operation, deed.actor, deed.name) == ("create_table", "user:ann", "default.s.a")
    assert f"{deed.event_path}#{deed.line}" == call.event_paths[0]
    assert commit.event_paths == (deed.event_path,)
    assert {ref.path for ref in commit.added} == {
        ref.path for files in manifest.tail.values() for ref in files if ref.newest == 2
    }
    assert await names_in(await workshop.cold().head()) == ["a"]
    await workshop.close()


async def test_a_call_that_comes_again_is_told_of_the_same_manifest() -> None:
    workshop = await started()
    call = await call_for(workshop, "a")
    first = await workshop.compactor.sync_compact(call)
    await workshop.table("later")
    await workshop.compactor.merge()
    for compactor in (workshop.compactor, CatalogCompactor(workshop.store(Role.COMPACTOR))):
        assert await compactor.sync_compact(call) == first
    assert len(await workshop.manifests()) == first.manifest_version + 3
    await workshop.close()


async def test_a_base_whose_rows_have_changed_is_refused() -> None:
    workshop = await started()
    call = await call_for(workshop, "a")
    await workshop.table("other")
    with pytest.raises(Conflict):
        await workshop.compactor.sync_compact(call)
    with pytest.raises(Conflict):
        await CatalogCompactor(workshop.store(Role.COMPACTOR)).sync_compact(call)
    assert await names_in(await workshop.cold().head()) == ["other"]
    await workshop.close()


async def test_a_merge_or_a_mark_in_between_refuses_nothing() -> None:
    workshop = await started()
    call = await call_for(workshop, "a")
    mark = new_ulid(workshop.runtime)
    assert await workshop.compactor.merge() is not None
    await workshop.compactor.mark_orphans(mark)
    rows_changed_at = [each.rows_changed_at for each in await workshop.manifests()]
    assert rows_changed_at == [0, 1, 1, 1]
    assert (await workshop.compactor.sync_compact(call)).manifest_version == 4
    assert await names_in(await workshop.cold().head()) == ["a"]
    await workshop.close()


async def test_a_base_above_the_head_is_refused() -> None:
    workshop = await started()
    call = renamed(await call_for(workshop, "a"), workshop, base_manifest=9)
    with pytest.raises(Conflict):
        await workshop.compactor.sync_compact(call)
    await workshop.close()


async def test_a_token_below_the_manifests_is_fenced() -> None:
    workshop = await started()
    call = await call_for(workshop, "a")
    workshop.api.lease.lost()
    await workshop.table("other")
    head = (await workshop.head()).number
    assert (await workshop.manifests())[-1].fencing_token > call.fencing_token
    stale = renamed(call, workshop, base_manifest=head, base_sha256=None)
    for compactor in (workshop.compactor, CatalogCompactor(workshop.store(Role.COMPACTOR))):
        with pytest.raises(Fenced):
            await compactor.sync_compact(stale)
    assert (await workshop.cold().head()).number == head
    await workshop.close()


async def test_a_token_that_was_passed_is_fenced_before_its_successor_has_published() -> None:
    workshop = await started()
    call = await call_for(workshop, "a")
    workshop.api.lease.lost()
    rival = workshop.office()
    assert await rival.lease.hold() > call.fencing_token
    with pytest.raises(Fenced):
        await workshop.compactor.sync_compact(call)
    assert (await workshop.cold().head()).number == 1
    await workshop.close()


@pytest.mark.parametrize("hours", [0, 1])
async def test_a_token_seen_an_hour_ago_is_looked_up_again_as_it_may_be_collected(
    hours: int,
) -> None:
    workshop = await started()
    await workshop.table("before")
    call = await call_for(workshop, "a")
    janitor = workshop.store(Role.JANITOR)
    await janitor.delete(Chain(janitor, "locks/catalog").key(call.fencing_token))
    workshop.clock.pass_by(timedelta(hours=hours))
    with pytest.raises(Fenced) if hours else nullcontext():
        await workshop.compactor.sync_compact(call)
    await workshop.close()


async def test_calls_that_make_no_sense_are_refused() -> None:
    workshop = await started()
    call = await call_for(workshop, "a")
    for bad in (
        msgspec.structs.replace(call, domain="executions"),
        msgspec.structs.replace(call, events=(), event_paths=()),
        msgspec.structs.replace(call, event_paths=()),
        msgspec.structs.replace(call, commit_ulid="../../x"),
    ):
        with pytest.raises(Invalid):
            await workshop.compactor.sync_compact(bad)
    await workshop.close()


async def test_a_mark_only_ever_rises_and_lies_in_the_past() -> None:
    workshop = await started()
    early, late = new_ulid(workshop.runtime), new_ulid(workshop.runtime)
    early, late = sorted((early, late))
    marked = await workshop.compactor.mark_orphans(late)
    assert await workshop.compactor.mark_orphans(early) == marked
    assert (await workshop.manifests())[-1].orphans_before == late
    workshop.clock.set_forward(timedelta(days=-1))
    await workshop.table("a")
    manifest = (await workshop.manifests())[-1]
    assert manifest.orphans_before == late, "every later manifest carries it on"
    new = [ref.path for files in manifest.tail.values() for ref in files if ref.newest == 3]
    assert len(new) == 3
    for path in new:  # whatever the clock says, they are not taken for orphans
        assert path.rpartition("/")[2] > late
    for bad in ("7" + "Z" * 25, "x"):
        with pytest.raises(Invalid):
            await workshop.compactor.mark_orphans(bad)
    await workshop.close()


async def test_nothing_is_marked_before_anything_was_published() -> None:
    workshop = open_workshop()
    with pytest.raises(Invalid):
        await workshop.compactor.mark_orphans(new_ulid(workshop.runtime))
    assert await workshop.compactor.merge() is None
    await workshop.close()


async def test_a_call_that_is_meant_for_another_workspace_is_refused() -> None:
    workshop = await started()
    call = await call_for(workshop, "a")
    head = (await workshop.head()).number
    for change in ({"tenant": "other"}, {"workspace": "other"}):
        with pytest.raises(Denied):
            await workshop.compactor.sync_compact(renamed(call, workshop, **change))
    assert (await workshop.cold().head()).number == head
    await workshop.close()


@pytest.mark.parametrize("merged", [False, True])
async def test_a_base_that_has_the_number_but_not_the_bytes_is_refused(merged: bool) -> None:
    workshop = await started()
    call = await call_for(workshop, "a")
    if merged:
        await workshop.compactor.merge()
    with pytest.raises(Conflict):
        await workshop.compactor.sync_compact(renamed(call, workshop, base_sha256="0" * 64))
    assert (await workshop.compactor.sync_compact(call)).commit_ulid == call.commit_ulid
    await workshop.close()


async def test_a_token_that_was_never_given_out_fences_nobody() -> None:
    workshop = await started()
    call = await call_for(workshop, "a")
    with pytest.raises(Fenced):
        await workshop.compactor.sync_compact(renamed(call, workshop, fencing_token=10**6))
    assert (await workshop.compactor.sync_compact(call)).commit_ulid == call.commit_ulid
    await workshop.close()
