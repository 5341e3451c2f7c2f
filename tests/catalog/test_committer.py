"""Group commit, and what a caller is told when something goes wrong on the way (P21 to P25)."""

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
from tests.catalog.workshop import (
    Cutting,
    Handling,
    Office,
    Post,
    after,
    all_rows,
    answer_is_lost,
    arrives_twice,
    arrives_twice_at_once,
    breaks,
    held,
    is_down,
    is_lost,
    names_in,
    new_catalog,
    new_table,
    open_workshop,
    refused,
    started,
    t,
)

MISSING = SchemaName("default", ("nowhere",))


async def settle() -> None:
    """Let everybody go on until all wait for something that takes longer."""
    await asyncio.sleep(0.05)


async def outcome(office: Office, name: str) -> str:
    """How a request to create a table ends: `ok`, or the code of its error."""
    try:
        await office.do(new_table(name))
    except ArcoError as problem:
        return problem.code
    return "ok"


# Groups


async def test_requests_that_arrive_during_a_commit_share_the_next() -> None:
    workshop = await started()
    arrive = workshop.runtime.tasks.event()
    workshop.post.next(held(arrive))
    before = (await workshop.head()).number
    first = asyncio.create_task(workshop.api.do(new_table("first")))
    await settle()
    others = [asyncio.create_task(workshop.api.do(new_table(f"t{n}"))) for n in range(30)]
    await settle()
    arrive.set()
    assert (await first).number == before + 1
    assert {(await other).number for other in others} == {before + 2}
    assert len(await names_in(await workshop.head())) == 31
    await workshop.close()


async def test_callers_released_together_share_a_group() -> None:
    workshop = await started()
    before = (await workshop.head()).number
    await asyncio.gather(*(workshop.api.do(new_table(f"t{n}")) for n in range(20)))
    assert (await workshop.head()).number == before + 1
    [manifest] = (await workshop.manifests())[before + 1 :]
    assert len(set(manifest.requests)) == 20
    await workshop.close()


async def test_one_bad_request_fails_alone() -> None:
    workshop = await started()
    before = (await workshop.head()).number
    requests = [new_table("good"), new_table("a/b"), new_table("x", schema=MISSING), new_table("b")]
    answers = await asyncio.gather(
        *(workshop.api.do(each) for each in requests), return_exceptions=True
    )
    assert [type(each).__name__ for each in answers] == [
        *("ChangeResult", "Invalid", "NotFound", "ChangeResult")
    ]
    assert (await workshop.head()).number == before + 1
    assert await names_in(await workshop.head()) == ["b", "good"]
    await workshop.close()


async def test_a_request_that_nobody_has_thought_of_fails_alone() -> None:
    workshop = await started()
    strange = UpdateTable(target=t("good"), name=None)  # type: ignore[arg-type]
    answers = await asyncio.gather(
        workshop.api.do(new_table("good")),
        workshop.api.do(strange),
        workshop.api.do(new_table("b")),
        return_exceptions=True,
    )
    assert [isinstance(each, Exception) for each in answers] == [False, True, False]
    assert await names_in(await workshop.head()) == ["b", "good"]
    await workshop.close()


async def test_neighbours_see_each_other() -> None:
    workshop = await started()
    inner = SchemaName("default", ("s", "inner"))
    made, table, again = await asyncio.gather(
        workshop.api.do(CreateSchema(catalog="default", parent=("s",), name="inner")),
        workshop.api.do(new_table("a", "id bigint", schema=inner)),
        workshop.api.do(new_table("b", schema=inner)),
    )
    assert made.number == table.number == again.number
    snapshot = await workshop.cold().head()
    assert (await snapshot.table(t("a", "s", "inner"))).row == table.object.row
    assert await names_in(snapshot, "s", "inner") == ["a", "b"]
    await workshop.close()


async def test_those_who_change_one_object_come_after_each_other_in_their_order() -> None:
    workshop = await started()
    created, renamed, dropped, again = await asyncio.gather(
        workshop.api.do(new_table("a", "id bigint")),
        workshop.api.do(UpdateTable(target=t("a"), name="b")),
        workshop.api.do(DropTable(target=t("b"))),
        workshop.api.do(new_table("b")),
    )
    assert created.number < renamed.number < dropped.number <= again.number
    assert (created.object.row.name, renamed.object.row.name) == ("a", "b")
    assert dropped.columns[0].name == "id"
    snapshot = await workshop.cold().head()
    assert (await snapshot.table(t("b"))).row == again.object.row
    assert (await (await workshop.cold().at(str(created.number))).table(t("a"))).row == (
        created.object.row
    )
    await workshop.close()


async def test_what_the_process_remembers_of_its_own_commits_is_what_was_published() -> None:
    workshop = await started()
    await asyncio.gather(*(workshop.api.do(new_table(f"t{n}", "a int", "b string")) for n in "xyz"))
    await workshop.do(UpdateTable(target=t("tx"), tags=("q",), properties={"k": "v"}))
    ours, read = await workshop.head(), await workshop.cold().head()
    for name in ("tx", "ty", "tz"):
        mine, theirs = await ours.table(t(name)), await read.table(t(name))
        assert mine == theirs
        assert await ours.columns(mine.row.table_id) == await read.columns(mine.row.table_id)
        assert await ours.find(mine.row.table_id) == await read.find(mine.row.table_id)
    await workshop.close()


# Refusals that rest on neighbours (P25)


async def test_a_refusal_that_rests_on_a_neighbour_waits_for_the_neighbours_manifest() -> None:
    workshop = await started()
    arrive = workshop.runtime.tasks.event()
    workshop.post.next(held(arrive))
    winner = asyncio.create_task(workshop.api.do(new_table("a")))
    loser = asyncio.create_task(workshop.api.do(new_table("a")))
    await settle()
    assert not loser.done()
    assert workshop.post.calls[-1].events, "the group is on its way"
    arrive.set()
    await winner
    with pytest.raises(AlreadyExists):
        await loser
    await workshop.close()


async def test_nobody_is_refused_for_the_sake_of_a_neighbour_that_was_never_published() -> None:
    workshop = await started()
    workshop.post.next(is_down)
    codes = [*await asyncio.gather(outcome(workshop.api, "a"), outcome(workshop.api, "a"))]
    assert codes == ["unavailable", "unavailable"]
    assert await outcome(workshop.api, "a") == "ok"
    await workshop.close()


async def test_nobody_is_refused_for_a_neighbour_of_whom_nothing_is_known() -> None:
    workshop = await started()
    workshop.post.next(is_lost)
    codes = [*await asyncio.gather(outcome(workshop.api, "a"), outcome(workshop.api, "a"))]
    assert codes == ["unknown_outcome", "unavailable"]
    await workshop.close()


async def test_a_refusal_that_needs_no_neighbour_is_given_at_once() -> None:
    workshop = await started()
    await workshop.table("there")
    arrive = workshop.runtime.tasks.event()
    workshop.post.next(held(arrive))
    fine = asyncio.create_task(workshop.api.do(new_table("a")))
    taken = asyncio.create_task(workshop.api.do(new_table("there")))
    with pytest.raises(AlreadyExists):
        await taken
    assert not fine.done()
    arrive.set()
    await fine
    await workshop.close()


async def test_what_a_neighbour_takes_away_counts_only_once_it_is_published() -> None:
    workshop = await started()
    await workshop.table("a")
    workshop.post.next(is_down)
    drop, describe = await asyncio.gather(
        workshop.api.do(DropTable(target=t("a"))),
        workshop.api.do(UpdateTable(target=t("a"), comment="still here")),
        return_exceptions=True,
    )
    assert isinstance(drop, Unavailable)
    assert isinstance(describe, Unavailable), "not NotFound: it was not dropped"
    await workshop.close()


async def test_after_a_lost_answer_the_refusals_of_neighbours_are_found_too() -> None:
    workshop = await started()
    workshop.post.next(answer_is_lost)
    codes = [*await asyncio.gather(outcome(workshop.api, "a"), outcome(workshop.api, "a"))]
    assert codes == ["ok", "already_exists"]
    await workshop.close()


# Trouble on the way


async def test_a_compactor_that_is_down_is_unavailable_and_nothing_has_changed() -> None:
    workshop = await started()
    before = (await workshop.head()).number
    workshop.post.always = is_down
    with pytest.raises(Unavailable):
        await workshop.api.do(new_table("a"))
    workshop.post.always = None
    assert (await workshop.cold().head()).number == before
    assert (await workshop.api.do(new_table("a"))).number == before + 1
    await workshop.close()


@pytest.mark.parametrize("trouble", [answer_is_lost, breaks], ids=["unknown", "anything else"])
async def test_a_commit_whose_answer_was_lost_is_found_and_answered_as_success(
    trouble: Handling,
) -> None:
    workshop = await started()
    before = (await workshop.head()).number
    workshop.post.next(trouble)
    done = await workshop.api.do(new_table("a", "id bigint"))
    assert done.number == before + 1
    assert done.commit_ulid == workshop.post.calls[-1].commit_ulid
    assert done.object == await (await workshop.cold().head()).table(t("a"))
    assert [column.name for column in done.columns] == ["id"]
    assert len(workshop.post.calls) == 3, "default, s, and this one"
    await workshop.close()


@pytest.mark.parametrize("handling", [arrives_twice, arrives_twice_at_once])
async def test_a_call_that_is_delivered_twice_is_one_commit(handling: Handling) -> None:
    workshop = await started()
    before = (await workshop.head()).number
    workshop.post.next(handling)
    assert (await workshop.api.do(new_table("a"))).number == before + 1
    assert (await workshop.cold().head()).number == before + 1
    await workshop.close()


@pytest.mark.parametrize("problem", [Unknown("?"), Corrupt("?")], ids=["unknown", "corrupt"])
async def test_what_nobody_knows_is_unknown_and_never_a_failure(problem: ArcoError) -> None:
    workshop = await started()
    workshop.post.next(refused(problem))
    with pytest.raises(Unknown):
        await workshop.api.do(new_table("a"))
    await workshop.close()


async def test_an_outcome_is_unknown_if_nobody_can_look() -> None:
    workshop = await started()
    cut_off = Cutting(workshop)
    office = workshop.office(backend=cut_off.backend)
    await office.do(new_table("first"))

    async def lose_everything() -> None:
        cut_off.is_cut = True
        raise Unknown("the network is gone")

    workshop.post.next(after(lose_everything))
    with pytest.raises(Unknown):
        await office.do(new_table("a"))
    cut_off.is_cut = False
    await workshop.close()


async def test_a_late_call_that_lands_after_all_is_seen_by_the_next_request() -> None:
    workshop = await started()
    workshop.post.next(is_lost)
    with pytest.raises(Unknown):
        await workshop.api.do(new_table("a"))
    late = workshop.post.calls[-1]
    await workshop.compactor.sync_compact(late)
    with pytest.raises(AlreadyExists):
        await workshop.api.do(new_table("a"))
    await workshop.close()


async def test_a_late_call_is_refused_once_rows_have_changed() -> None:
    workshop = await started()
    workshop.post.next(is_lost)
    with pytest.raises(Unknown):
        await workshop.api.do(new_table("a"))
    late = workshop.post.calls[-1]
    await workshop.api.do(new_table("a"))
    with pytest.raises(Conflict):
        await workshop.compactor.sync_compact(late)
    await workshop.close()


async def test_a_ledger_that_cannot_be_written_is_unavailable() -> None:
    workshop = await started()
    cut_off = Cutting(workshop, only="/ledger/")
    office = workshop.office(backend=cut_off.backend)
    await office.do(new_table("first"))
    cut_off.is_cut = True
    with pytest.raises(Unavailable):
        await office.do(new_table("a"))
    cut_off.is_cut = False
    assert await outcome(office, "a") == "ok"
    await workshop.close()


async def test_a_compactor_that_does_not_understand_us_is_unavailable() -> None:
    workshop = await started()
    workshop.post.next(refused(Invalid("event x cannot be folded")))
    with pytest.raises(Unavailable):
        await workshop.api.do(new_table("a"))
    await workshop.close()


# Rivals


async def test_after_a_conflict_by_a_rival_it_is_decided_again() -> None:
    workshop = await started()
    rival = workshop.office()
    workshop.post.next(after(lambda: rival.do(new_table("theirs"))))
    done = await workshop.api.do(new_table("mine"))
    assert await names_in(await workshop.head()) == ["mine", "theirs"]
    assert done.number == (await workshop.head()).number
    await workshop.close()


async def test_a_rival_that_takes_the_name_first_wins() -> None:
    workshop = await started()
    rival = workshop.office()
    workshop.post.next(after(lambda: rival.do(new_table("a"))))
    with pytest.raises(AlreadyExists):
        await workshop.api.do(new_table("a"))
    await workshop.close()


async def test_a_merge_by_the_way_is_no_conflict() -> None:
    workshop = await started()
    workshop.post.next(after(workshop.compactor.merge))
    before = (await workshop.head()).number
    assert (await workshop.api.do(new_table("a"))).number == before + 2
    assert len(workshop.post.calls) == 3, "the call was sent once"
    assert await names_in(await workshop.head()) == ["a"]
    await workshop.close()


async def test_a_stale_token_is_fenced_and_a_new_lease_succeeds() -> None:
    workshop = await started()
    rival = workshop.office()
    held_by_us = await workshop.api.lease.hold()
    taken: list[int] = []

    async def take_over() -> None:
        workshop.api.lease.lost()
        taken.append(await rival.lease.hold())
        rival.lease.lost()

    workshop.post.next(after(take_over))
    await workshop.api.do(new_table("a"))
    first, second = (call.fencing_token for call in workshop.post.calls[-2:])
    assert first == held_by_us < taken[0] < second
    assert (await workshop.manifests())[-1].fencing_token == second
    await workshop.close()


async def test_fenced_for_ever_ends_in_time() -> None:
    workshop = await started()

    async def fenced_after_a_while() -> None:
        workshop.clock.pass_by(timedelta(seconds=26))
        raise Fenced("a newer token")

    workshop.post.always = after(fenced_after_a_while)
    with pytest.raises(Unavailable):
        await workshop.api.do(new_table("a"))
    workshop.post.always = None
    await workshop.close()


async def test_many_rivals_lose_nothing() -> None:
    workshop = await started()
    offices = [workshop.api, workshop.office(), workshop.office()]

    async def work(office: Office, who: int) -> list[str]:
        return [await outcome(office, f"t{n}") for n in range(who, who + 4)]

    answers = await asyncio.gather(*(work(office, who) for who, office in enumerate(offices)))
    made = [
        f"t{who + n}" for who, codes in enumerate(answers) for n, c in enumerate(codes) if c == "ok"
    ]
    assert sorted(made) == sorted(set(made)) == list(await names_in(await workshop.head()))
    assert {code for codes in answers for code in codes} <= {"ok", "already_exists"}
    await workshop.close()


# The beginning and the end


async def test_of_two_that_begin_a_workspace_one_makes_the_default_catalog() -> None:
    workshop = open_workshop()
    rival = workshop.office()
    await asyncio.gather(ensure_default(workshop.api.committer), ensure_default(rival.committer))
    await ensure_default(workshop.api.committer)
    snapshot = await workshop.cold().head()
    assert [found.row.name for found in await snapshot.catalogs()] == ["default"]
    assert snapshot.number == 0
    await workshop.close()


async def test_a_committer_that_closes_finishes_what_it_has_and_takes_no_more() -> None:
    workshop = await started()
    work = [asyncio.create_task(workshop.api.do(new_table(f"t{n}"))) for n in range(5)]
    await asyncio.sleep(0)
    await workshop.api.committer.close()
    assert len({(await each).number for each in work}) == 1
    with pytest.raises(Unavailable):
        await workshop.api.do(new_catalog("late"))
    last = max(await workshop.keys("ledger/catalog/"))
    sealed = await workshop.store(Role.JANITOR).get(last)
    assert b'"seal":true' in sealed
    await workshop.compactor.close()


async def test_a_store_that_contradicts_itself_is_reported_as_that() -> None:
    workshop = await started()
    snapshot = await workshop.head()
    assert snapshot.manifest is not None
    await workshop.backend.delete(
        f"{workshop.api.store.scope.prefix}{snapshot.manifest.tail['schemas'][0].path}"
    )
    office = workshop.office()
    with pytest.raises(Corrupt):
        await office.do(new_table("a"))
    with pytest.raises(Corrupt):
        await all_rows(office.store, await office.head())
    await workshop.close()


async def test_a_compactor_that_refuses_for_no_reason_is_not_asked_for_ever() -> None:
    workshop = await started()
    workshop.post.always = refused(Conflict("there is no manifest 2"))
    before = len(workshop.post.calls)
    with pytest.raises(Unavailable, match="the same store"):
        await workshop.do(new_table("a"))
    assert len(workshop.post.calls) - before < 10
    workshop.post.always = None
    await workshop.do(new_table("a"))
    await workshop.close()


async def test_an_answer_about_another_chain_is_not_believed() -> None:
    workshop, elsewhere = await started(), await started()

    async def handle(post: Post, call: SyncCompact) -> PublishedCommit:
        await elsewhere.do(new_table("x"))
        raw = (await elsewhere.head()).entry
        assert raw is not None
        return PublishedCommit(
            manifest_version=raw.number, commit_ulid=call.commit_ulid, manifest=raw.raw.decode()
        )

    workshop.post.next(handle)
    with pytest.raises(Unknown):
        await workshop.do(new_table("a"))
    assert await names_in(await workshop.head()) == []
    await workshop.close()
    await elsewhere.close()
