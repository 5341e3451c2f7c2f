"""Group commit, and the errors of callers when a request or an answer is lost (P21 to P25)."""

import asyncio
from datetime import timedelta

import pytest

from arco.catalog.change import ensure_default
from arco.catalog.compactor_port import PublishedCommit, SyncCompact
from arco.catalog.ddl import CreateSchema, DropTable, SchemaName, UpdateTable
from arco.core.errors import (
    AlreadyExists,
    ArcoError,
    Conflict,
    Corrupt,
    Fenced,
    Invalid,
    Unavailable,
    Unknown,
)
from arco.storage.roles import Role
from tests.catalog.catalog_setup import (
    ApiProcess,
    CompactorChannel,
    Cutting,
    Handling,
    after,
    all_rows,
    answer_is_lost,
    arrives_twice,
    arrives_twice_at_once,
    breaks,
    delayed,
    is_down,
    is_lost,
    names_in,
    new_catalog,
    new_table,
    open_setup,
    refused,
    started,
    t,
)

MISSING = SchemaName("default", ("nowhere",))


async def settle() -> None:
    """Run all tasks until each waits for something that takes longer."""
    await asyncio.sleep(0.05)


async def outcome(api_process: ApiProcess, name: str) -> str:
    """How a request to create a table ends: `ok`, or the code of its error."""
    try:
        await api_process.do(new_table(name))
    except ArcoError as problem:
        return problem.code
    return "ok"


# Groups


async def test_requests_that_arrive_during_a_commit_share_the_next() -> None:
    setup = await started()
    arrive = setup.runtime.tasks.event()
    setup.channel.next(delayed(arrive))
    before = (await setup.head()).number
    first = asyncio.create_task(setup.api.do(new_table("first")))
    await settle()
    others = [asyncio.create_task(setup.api.do(new_table(f"t{n}"))) for n in range(30)]
    await settle()
    arrive.set()
    assert (await first).number == before + 1
    assert {(await other).number for other in others} == {before + 2}
    assert len(await names_in(await setup.head())) == 31
    await setup.close()


async def test_callers_released_together_share_a_group() -> None:
    setup = await started()
    before = (await setup.head()).number
    await asyncio.gather(*(setup.api.do(new_table(f"t{n}")) for n in range(20)))
    assert (await setup.head()).number == before + 1
    [manifest] = (await setup.manifests())[before + 1 :]
    assert len(set(manifest.requests)) == 20
    await setup.close()


async def test_one_bad_request_fails_alone() -> None:
    setup = await started()
    before = (await setup.head()).number
    requests = [new_table("good"), new_table("a/b"), new_table("x", schema=MISSING), new_table("b")]
    answers = await asyncio.gather(
        *(setup.api.do(each) for each in requests), return_exceptions=True
    )
    assert [type(each).__name__ for each in answers] == [
        *("ChangeResult", "Invalid", "NotFound", "ChangeResult")
    ]
    assert (await setup.head()).number == before + 1
    assert await names_in(await setup.head()) == ["b", "good"]
    await setup.close()


async def test_a_request_with_an_unexpected_error_fails_alone() -> None:
    setup = await started()
    strange = UpdateTable(target=t("good"), name=None)  # type: ignore[arg-type]
    answers = await asyncio.gather(
        setup.api.do(new_table("good")),
        setup.api.do(strange),
        setup.api.do(new_table("b")),
        return_exceptions=True,
    )
    assert [isinstance(each, Exception) for each in answers] == [False, True, False]
    assert await names_in(await setup.head()) == ["b", "good"]
    await setup.close()


async def test_grouped_requests_see_each_other() -> None:
    setup = await started()
    inner = SchemaName("default", ("s", "inner"))
    schema, table, second_table = await asyncio.gather(
        setup.api.do(CreateSchema(catalog="default", parent=("s",), name="inner")),
        setup.api.do(new_table("a", "id bigint", schema=inner)),
        setup.api.do(new_table("b", schema=inner)),
    )
    assert schema.number == table.number == second_table.number
    snapshot = await setup.cold().head()
    assert (await snapshot.table(t("a", "s", "inner"))).row == table.object.row
    assert await names_in(snapshot, "s", "inner") == ["a", "b"]
    await setup.close()


async def test_changes_of_one_object_are_applied_in_the_order_of_their_requests() -> None:
    setup = await started()
    created, renamed, dropped, recreated = await asyncio.gather(
        setup.api.do(new_table("a", "id bigint")),
        setup.api.do(UpdateTable(target=t("a"), name="b")),
        setup.api.do(DropTable(target=t("b"))),
        setup.api.do(new_table("b")),
    )
    assert created.number < renamed.number < dropped.number <= recreated.number
    assert (created.object.row.name, renamed.object.row.name) == ("a", "b")
    assert dropped.columns[0].name == "id"
    snapshot = await setup.cold().head()
    assert (await snapshot.table(t("b"))).row == recreated.object.row
    assert (await (await setup.cold().at(str(created.number))).table(t("a"))).row == (
        created.object.row
    )
    await setup.close()


async def test_what_the_process_remembers_of_its_own_commits_is_what_was_published() -> None:
    setup = await started()
    await asyncio.gather(*(setup.api.do(new_table(f"t{n}", "a int", "b string")) for n in "xyz"))
    await setup.do(UpdateTable(target=t("tx"), tags=("q",), properties={"k": "v"}))
    ours, read = await setup.head(), await setup.cold().head()
    for name in ("tx", "ty", "tz"):
        mine, theirs = await ours.table(t(name)), await read.table(t(name))
        assert mine == theirs
        assert await ours.columns(mine.row.table_id) == await read.columns(mine.row.table_id)
        assert await ours.find(mine.row.table_id) == await read.find(mine.row.table_id)
    await setup.close()


# Refusals that rest on neighbours (P25)


async def test_a_refusal_that_depends_on_a_grouped_request_waits_for_its_manifest() -> None:
    setup = await started()
    arrive = setup.runtime.tasks.event()
    setup.channel.next(delayed(arrive))
    winner = asyncio.create_task(setup.api.do(new_table("a")))
    loser = asyncio.create_task(setup.api.do(new_table("a")))
    await settle()
    assert not loser.done()
    assert setup.channel.calls[-1].events, "the group is on its way"
    arrive.set()
    await winner
    with pytest.raises(AlreadyExists):
        await loser
    await setup.close()


async def test_no_request_is_refused_for_a_grouped_request_that_was_never_published() -> None:
    setup = await started()
    setup.channel.next(is_down)
    codes = [*await asyncio.gather(outcome(setup.api, "a"), outcome(setup.api, "a"))]
    assert codes == ["unavailable", "unavailable"]
    assert await outcome(setup.api, "a") == "ok"
    await setup.close()


async def test_no_request_is_refused_for_a_grouped_request_with_an_unknown_outcome() -> None:
    setup = await started()
    setup.channel.next(is_lost)
    codes = [*await asyncio.gather(outcome(setup.api, "a"), outcome(setup.api, "a"))]
    assert codes == ["unknown_outcome", "unavailable"]
    await setup.close()


async def test_a_refusal_that_depends_on_no_other_request_is_answered_at_once() -> None:
    setup = await started()
    await setup.table("there")
    arrive = setup.runtime.tasks.event()
    setup.channel.next(delayed(arrive))
    fine = asyncio.create_task(setup.api.do(new_table("a")))
    duplicate = asyncio.create_task(setup.api.do(new_table("there")))
    with pytest.raises(AlreadyExists):
        await duplicate
    assert not fine.done()
    arrive.set()
    await fine
    await setup.close()


async def test_what_a_grouped_request_removes_counts_only_once_it_is_published() -> None:
    setup = await started()
    await setup.table("a")
    setup.channel.next(is_down)
    drop, describe = await asyncio.gather(
        setup.api.do(DropTable(target=t("a"))),
        setup.api.do(UpdateTable(target=t("a"), comment="still here")),
        return_exceptions=True,
    )
    assert isinstance(drop, Unavailable)
    assert isinstance(describe, Unavailable), "not NotFound: it was not dropped"
    await setup.close()


async def test_after_a_lost_answer_grouped_requests_are_refused_too() -> None:
    setup = await started()
    setup.channel.next(answer_is_lost)
    codes = [*await asyncio.gather(outcome(setup.api, "a"), outcome(setup.api, "a"))]
    assert codes == ["ok", "already_exists"]
    await setup.close()


# Trouble on the way


async def test_an_unreachable_compactor_is_unavailable_and_nothing_has_changed() -> None:
    setup = await started()
    before = (await setup.head()).number
    setup.channel.always = is_down
    with pytest.raises(Unavailable):
        await setup.api.do(new_table("a"))
    setup.channel.always = None
    assert (await setup.cold().head()).number == before
    assert (await setup.api.do(new_table("a"))).number == before + 1
    await setup.close()


@pytest.mark.parametrize("trouble", [answer_is_lost, breaks], ids=["unknown", "anything else"])
async def test_a_commit_whose_answer_was_lost_is_answered_as_a_success(
    trouble: Handling,
) -> None:
    setup = await started()
    before = (await setup.head()).number
    setup.channel.next(trouble)
    done = await setup.api.do(new_table("a", "id bigint"))
    assert done.number == before + 1
    assert done.commit_ulid == setup.channel.calls[-1].commit_ulid
    assert done.object == await (await setup.cold().head()).table(t("a"))
    assert [column.name for column in done.columns] == ["id"]
    assert len(setup.channel.calls) == 3, "default, s, and this one"
    await setup.close()


@pytest.mark.parametrize("handling", [arrives_twice, arrives_twice_at_once])
async def test_a_call_that_is_delivered_twice_is_one_commit(handling: Handling) -> None:
    setup = await started()
    before = (await setup.head()).number
    setup.channel.next(handling)
    assert (await setup.api.do(new_table("a"))).number == before + 1
    assert (await setup.cold().head()).number == before + 1
    await setup.close()


@pytest.mark.parametrize("problem", [Unknown("?"), Corrupt("?")], ids=["unknown", "corrupt"])
async def test_an_unclear_answer_is_unknown_and_never_a_failure(problem: ArcoError) -> None:
    setup = await started()
    setup.channel.next(refused(problem))
    with pytest.raises(Unknown):
        await setup.api.do(new_table("a"))
    await setup.close()


async def test_an_outcome_is_unknown_if_it_cannot_be_looked_up() -> None:
    setup = await started()
    cut_off = Cutting(setup)
    api_process = setup.api_process(backend=cut_off.backend)
    await api_process.do(new_table("first"))

    async def lose_everything() -> None:
        cut_off.is_cut = True
        raise Unknown("the network is gone")

    setup.channel.next(after(lose_everything))
    with pytest.raises(Unknown):
        await api_process.do(new_table("a"))
    cut_off.is_cut = False
    await setup.close()


async def test_a_late_call_that_lands_after_all_is_seen_by_the_next_request() -> None:
    setup = await started()
    setup.channel.next(is_lost)
    with pytest.raises(Unknown):
        await setup.api.do(new_table("a"))
    late_call = setup.channel.calls[-1]
    await setup.compactor.sync_compact(late_call)
    with pytest.raises(AlreadyExists):
        await setup.api.do(new_table("a"))
    await setup.close()


async def test_a_late_call_is_refused_once_rows_have_changed() -> None:
    setup = await started()
    setup.channel.next(is_lost)
    with pytest.raises(Unknown):
        await setup.api.do(new_table("a"))
    late_call = setup.channel.calls[-1]
    await setup.api.do(new_table("a"))
    with pytest.raises(Conflict):
        await setup.compactor.sync_compact(late_call)
    await setup.close()


async def test_a_ledger_that_cannot_be_written_is_unavailable() -> None:
    setup = await started()
    cut_off = Cutting(setup, only="/ledger/")
    api_process = setup.api_process(backend=cut_off.backend)
    await api_process.do(new_table("first"))
    cut_off.is_cut = True
    with pytest.raises(Unavailable):
        await api_process.do(new_table("a"))
    cut_off.is_cut = False
    assert await outcome(api_process, "a") == "ok"
    await setup.close()


async def test_a_compactor_that_does_not_understand_us_is_unavailable() -> None:
    setup = await started()
    setup.channel.next(refused(Invalid("event x cannot be folded")))
    with pytest.raises(Unavailable):
        await setup.api.do(new_table("a"))
    await setup.close()


# Rivals


async def test_a_request_is_redecided_after_a_conflict_with_a_rival() -> None:
    setup = await started()
    rival = setup.api_process()
    setup.channel.next(after(lambda: rival.do(new_table("theirs"))))
    done = await setup.api.do(new_table("mine"))
    assert await names_in(await setup.head()) == ["mine", "theirs"]
    assert done.number == (await setup.head()).number
    await setup.close()


async def test_a_rival_that_takes_the_name_first_wins() -> None:
    setup = await started()
    rival = setup.api_process()
    setup.channel.next(after(lambda: rival.do(new_table("a"))))
    with pytest.raises(AlreadyExists):
        await setup.api.do(new_table("a"))
    await setup.close()


async def test_a_concurrent_merge_is_no_conflict() -> None:
    setup = await started()
    setup.channel.next(after(setup.compactor.merge))
    before = (await setup.head()).number
    assert (await setup.api.do(new_table("a"))).number == before + 2
    assert len(setup.channel.calls) == 3, "the call was sent once"
    assert await names_in(await setup.head()) == ["a"]
    await setup.close()


async def test_a_stale_token_is_fenced_and_a_new_lease_succeeds() -> None:
    setup = await started()
    rival = setup.api_process()
    held_by_us = await setup.api.lease.hold()
    rival_tokens: list[int] = []

    async def take_over() -> None:
        setup.api.lease.lost()
        rival_tokens.append(await rival.lease.hold())
        rival.lease.lost()

    setup.channel.next(after(take_over))
    await setup.api.do(new_table("a"))
    first, second = (call.fencing_token for call in setup.channel.calls[-2:])
    assert first == held_by_us < rival_tokens[0] < second
    assert (await setup.manifests())[-1].fencing_token == second
    await setup.close()


async def test_a_process_that_is_fenced_every_time_gives_up() -> None:
    setup = await started()

    async def fenced_after_a_while() -> None:
        setup.clock.pass_by(timedelta(seconds=26))
        raise Fenced("a newer token")

    setup.channel.always = after(fenced_after_a_while)
    with pytest.raises(Unavailable):
        await setup.api.do(new_table("a"))
    setup.channel.always = None
    await setup.close()


async def test_many_rivals_lose_nothing() -> None:
    setup = await started()
    api_processes = [setup.api, setup.api_process(), setup.api_process()]

    async def work(api_process: ApiProcess, who: int) -> list[str]:
        return [await outcome(api_process, f"t{n}") for n in range(who, who + 4)]

    answers = await asyncio.gather(
        *(work(api_process, who) for who, api_process in enumerate(api_processes))
    )
    created_names = [
        f"t{who + n}" for who, codes in enumerate(answers) for n, c in enumerate(codes) if c == "ok"
    ]
    assert (
        sorted(created_names)
        == sorted(set(created_names))
        == list(await names_in(await setup.head()))
    )
    assert {code for codes in answers for code in codes} <= {"ok", "already_exists"}
    await setup.close()


# The beginning and the end


async def test_of_two_that_begin_a_workspace_one_makes_the_default_catalog() -> None:
    setup = open_setup()
    rival = setup.api_process()
    await asyncio.gather(ensure_default(setup.api.committer), ensure_default(rival.committer))
    await ensure_default(setup.api.committer)
    snapshot = await setup.cold().head()
    assert [catalog.row.name for catalog in await snapshot.catalogs()] == ["default"]
    assert snapshot.number == 0
    await setup.close()


async def test_a_closing_committer_finishes_its_requests_and_accepts_no_more() -> None:
    setup = await started()
    work = [asyncio.create_task(setup.api.do(new_table(f"t{n}"))) for n in range(5)]
    await asyncio.sleep(0)
    await setup.api.committer.close()
    assert len({(await each).number for each in work}) == 1
    with pytest.raises(Unavailable):
        await setup.api.do(new_catalog("late"))
    last_key = max(await setup.keys("ledger/catalog/"))
    sealed = await setup.store(Role.JANITOR).get(last_key)
    assert b'"seal":true' in sealed
    await setup.compactor.close()


async def test_a_store_that_contradicts_itself_is_reported_as_corrupt() -> None:
    setup = await started()
    snapshot = await setup.head()
    assert snapshot.manifest is not None
    await setup.backend.delete(
        f"{setup.api.store.scope.prefix}{snapshot.manifest.tail['schemas'][0].path}"
    )
    api_process = setup.api_process()
    with pytest.raises(Corrupt):
        await api_process.do(new_table("a"))
    with pytest.raises(Corrupt):
        await all_rows(api_process.store, await api_process.head())
    await setup.close()


async def test_a_compactor_that_refuses_for_no_reason_is_retried_a_limited_number_of_times() -> (
    None
):
    setup = await started()
    setup.channel.always = refused(Conflict("there is no manifest 2"))
    before = len(setup.channel.calls)
    with pytest.raises(Unavailable, match="the same store"):
        await setup.do(new_table("a"))
    assert len(setup.channel.calls) - before < 10
    setup.channel.always = None
    await setup.do(new_table("a"))
    await setup.close()


async def test_an_answer_about_another_chain_is_unknown() -> None:
    setup, elsewhere = await started(), await started()

    async def handle(channel: CompactorChannel, call: SyncCompact) -> PublishedCommit:
        await elsewhere.do(new_table("x"))
        raw = (await elsewhere.head()).entry
        assert raw is not None
        return PublishedCommit(
            manifest_version=raw.number, commit_ulid=call.commit_ulid, manifest=raw.raw.decode()
        )

    setup.channel.next(handle)
    with pytest.raises(Unknown):
        await setup.do(new_table("a"))
    assert await names_in(await setup.head()) == []
    await setup.close()
    await elsewhere.close()
