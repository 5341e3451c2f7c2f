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
from tests.catalog.catalog_setup import (
    CatalogSetup,
    is_lost,
    names_in,
    new_table,
    open_setup,
    started,
)


async def call_for(setup: CatalogSetup, name: str) -> SyncCompact:
    """A call that was decided against the head, and has not arrived yet."""
    setup.channel.next(is_lost)
    with pytest.raises(Exception, match="connection"):
        await setup.api.do(new_table(name, "id bigint"))
    return setup.channel.calls[-1]


def renamed(call: SyncCompact, setup: CatalogSetup, **changes: object) -> SyncCompact:
    """The same work as another commit."""
    fresh: SyncCompact = msgspec.structs.replace(
        call, **({"commit_ulid": new_ulid(setup.runtime)} | changes)
    )
    return fresh


async def test_the_events_of_a_call_become_one_commit() -> None:
    setup = await started()
    call = await call_for(setup, "a")
    answer = await setup.compactor.sync_compact(call)
    assert (answer.manifest_version, answer.commit_ulid) == (2, call.commit_ulid)
    manifest = (await setup.manifests())[-1]
    assert manifest.rows_changed_at == 2
    assert manifest.fencing_token == call.fencing_token
    commit = await read_commit(setup.store(Role.READER), manifest.commit)
    assert (commit.kind, commit.number, commit.commit_ulid) == (CommitKind.DDL, 2, call.commit_ulid)
    [operation] = commit.operations
    assert (operation.operation, operation.actor, operation.name) == (
        "create_table",
        "user:ann",
        "default.s.a",
    )
    assert f"{operation.event_path}#{operation.line}" == call.event_paths[0]
    assert commit.event_paths == (operation.event_path,)
    assert {ref.path for ref in commit.added} == {
        ref.path for files in manifest.tail.values() for ref in files if ref.newest == 2
    }
    assert await names_in(await setup.cold().head()) == ["a"]
    await setup.close()


async def test_a_repeated_call_is_answered_with_the_same_manifest() -> None:
    setup = await started()
    call = await call_for(setup, "a")
    first = await setup.compactor.sync_compact(call)
    await setup.table("later")
    await setup.compactor.merge()
    for compactor in (setup.compactor, CatalogCompactor(setup.store(Role.COMPACTOR))):
        assert await compactor.sync_compact(call) == first
    assert len(await setup.manifests()) == first.manifest_version + 3
    await setup.close()


async def test_a_base_whose_rows_have_changed_is_refused() -> None:
    setup = await started()
    call = await call_for(setup, "a")
    await setup.table("other")
    with pytest.raises(Conflict):
        await setup.compactor.sync_compact(call)
    with pytest.raises(Conflict):
        await CatalogCompactor(setup.store(Role.COMPACTOR)).sync_compact(call)
    assert await names_in(await setup.cold().head()) == ["other"]
    await setup.close()


async def test_a_merge_or_a_mark_in_between_refuses_nothing() -> None:
    setup = await started()
    call = await call_for(setup, "a")
    mark = new_ulid(setup.runtime)
    assert await setup.compactor.merge() is not None
    await setup.compactor.mark_orphans(mark)
    rows_changed_at = [each.rows_changed_at for each in await setup.manifests()]
    assert rows_changed_at == [0, 1, 1, 1]
    assert (await setup.compactor.sync_compact(call)).manifest_version == 4
    assert await names_in(await setup.cold().head()) == ["a"]
    await setup.close()


async def test_a_base_above_the_head_is_refused() -> None:
    setup = await started()
    call = renamed(await call_for(setup, "a"), setup, base_manifest=9)
    with pytest.raises(Conflict):
        await setup.compactor.sync_compact(call)
    await setup.close()


async def test_a_token_below_the_manifests_is_fenced() -> None:
    setup = await started()
    call = await call_for(setup, "a")
    setup.api.lease.lost()
    await setup.table("other")
    head = (await setup.head()).number
    assert (await setup.manifests())[-1].fencing_token > call.fencing_token
    stale = renamed(call, setup, base_manifest=head, base_sha256=None)
    for compactor in (setup.compactor, CatalogCompactor(setup.store(Role.COMPACTOR))):
        with pytest.raises(Fenced):
            await compactor.sync_compact(stale)
    assert (await setup.cold().head()).number == head
    await setup.close()


async def test_a_token_that_was_passed_is_fenced_before_its_successor_has_published() -> None:
    setup = await started()
    call = await call_for(setup, "a")
    setup.api.lease.lost()
    rival = setup.api_process()
    assert await rival.lease.hold() > call.fencing_token
    with pytest.raises(Fenced):
        await setup.compactor.sync_compact(call)
    assert (await setup.cold().head()).number == 1
    await setup.close()


@pytest.mark.parametrize("hours", [0, 1])
async def test_a_token_seen_an_hour_ago_is_looked_up_again_as_it_may_be_collected(
    hours: int,
) -> None:
    setup = await started()
    await setup.table("before")
    call = await call_for(setup, "a")
    janitor = setup.store(Role.JANITOR)
    await janitor.delete(Chain(janitor, "locks/catalog").key(call.fencing_token))
    setup.clock.pass_by(timedelta(hours=hours))
    with pytest.raises(Fenced) if hours else nullcontext():
        await setup.compactor.sync_compact(call)
    await setup.close()


async def test_calls_that_make_no_sense_are_refused() -> None:
    setup = await started()
    call = await call_for(setup, "a")
    for bad in (
        msgspec.structs.replace(call, domain="executions"),
        msgspec.structs.replace(call, events=(), event_paths=()),
        msgspec.structs.replace(call, event_paths=()),
        msgspec.structs.replace(call, commit_ulid="../../x"),
    ):
        with pytest.raises(Invalid):
            await setup.compactor.sync_compact(bad)
    await setup.close()


async def test_a_mark_only_ever_rises_and_lies_in_the_past() -> None:
    setup = await started()
    lower_ulid, higher_ulid = new_ulid(setup.runtime), new_ulid(setup.runtime)
    lower_ulid, higher_ulid = sorted((lower_ulid, higher_ulid))
    marked = await setup.compactor.mark_orphans(higher_ulid)
    assert await setup.compactor.mark_orphans(lower_ulid) == marked
    assert (await setup.manifests())[-1].orphans_before == higher_ulid
    setup.clock.set_forward(timedelta(days=-1))
    await setup.table("a")
    manifest = (await setup.manifests())[-1]
    assert manifest.orphans_before == higher_ulid, "every later manifest carries it on"
    new = [ref.path for files in manifest.tail.values() for ref in files if ref.newest == 3]
    assert len(new) == 3
    for path in new:  # whatever the clock says, they are not taken for orphans
        assert path.rpartition("/")[2] > higher_ulid
    for bad in ("7" + "Z" * 25, "x"):
        with pytest.raises(Invalid):
            await setup.compactor.mark_orphans(bad)
    await setup.close()


async def test_nothing_is_marked_before_anything_was_published() -> None:
    setup = open_setup()
    with pytest.raises(Invalid):
        await setup.compactor.mark_orphans(new_ulid(setup.runtime))
    assert await setup.compactor.merge() is None
    await setup.close()


async def test_a_call_that_is_meant_for_another_workspace_is_refused() -> None:
    setup = await started()
    call = await call_for(setup, "a")
    head = (await setup.head()).number
    for change in ({"tenant": "other"}, {"workspace": "other"}):
        with pytest.raises(Denied):
            await setup.compactor.sync_compact(renamed(call, setup, **change))
    assert (await setup.cold().head()).number == head
    await setup.close()


@pytest.mark.parametrize("merged", [False, True])
async def test_a_base_that_has_the_number_but_not_the_bytes_is_refused(merged: bool) -> None:
    setup = await started()
    call = await call_for(setup, "a")
    if merged:
        await setup.compactor.merge()
    with pytest.raises(Conflict):
        await setup.compactor.sync_compact(renamed(call, setup, base_sha256="0" * 64))
    assert (await setup.compactor.sync_compact(call)).commit_ulid == call.commit_ulid
    await setup.close()


async def test_a_token_that_was_never_issued_fences_no_writer() -> None:
    setup = await started()
    call = await call_for(setup, "a")
    with pytest.raises(Fenced):
        await setup.compactor.sync_compact(renamed(call, setup, fencing_token=10**6))
    assert (await setup.compactor.sync_compact(call)).commit_ulid == call.commit_ulid
    await setup.close()
