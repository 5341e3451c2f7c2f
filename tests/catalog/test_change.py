"""Requests under an idempotency key: carried out at most once, always answered the same (P10 to P14)."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

import msgspec
import pytest

from arco.catalog.change import ChangeWork
from arco.catalog.compactor_port import PublishedCommit, SyncCompact
from arco.catalog.ddl import AttachTable, CreateSchema, CreateTable, Ddl, DropTable, SchemaName
from arco.catalog.manifest import manifests_of
from arco.catalog.pending_request import PendingRequest
from arco.core import json
from arco.core.errors import Denied, KeyReused, Unavailable, Unknown
from arco.core.ids import new_object_id, new_ulid
from arco.ledger.claim import Answer, Claim, key_chain, key_path, read_key
from arco.ledger.envelope import Envelope
from arco.ledger.writer import AppendReceipt
from arco.storage.roles import Role
from tests.catalog.attach_requests import attach, table_id
from tests.catalog.catalog_setup import (
    ANN,
    SCOPE,
    ApiProcess,
    CatalogSetup,
    ChangeAnswer,
    CompactorChannel,
    Plain,
    after,
    answer_is_lost,
    delayed,
    is_down,
    is_lost,
    names_in,
    new_table,
    refused,
    started,
    t,
    until,
)


def done_of(answer: Answer) -> ChangeAnswer:
    assert answer.status == 200
    return json.decode(bytes(answer.body), ChangeAnswer)


def code_of(answer: Answer) -> str:
    return json.decode(bytes(answer.body), str)


async def outcomes_recorded(setup: CatalogSetup, key: str) -> int:
    """How many numbers the chain of a key has."""
    await setup.api.idempotency.close()
    path = key_path(SCOPE, principal=ANN, api="native", operation="CreateTable", key=key)
    return len(await read_key(key_chain(setup.store(Role.API), path)))


async def test_a_repeated_request_gets_the_same_answer_and_changes_nothing() -> None:
    setup = await started()
    first = await setup.api.do_once(new_table("a", "id bigint"), "k")
    number = (await setup.head()).number
    await setup.do(DropTable(target=t("a")))
    for api_process in (setup.api, setup.api_process()):
        replayed = await api_process.do_once(new_table("a", "id bigint"), "k")
        assert bytes(replayed.body) == bytes(first.body)
    assert done_of(first).number == number
    assert (await setup.head()).number == number + 1
    await setup.close()


async def test_a_key_with_another_body_is_refused() -> None:
    setup = await started()
    await setup.api.do_once(new_table("a"), "k")
    with pytest.raises(KeyReused):
        await setup.api.do_once(new_table("b"), "k")
    assert await names_in(await setup.head()) == ["a"]
    await setup.close()


async def test_a_refusal_is_replayed_although_its_cause_is_gone() -> None:
    setup = await started()
    await setup.table("a")
    first = await setup.api.do_once(new_table("a"), "k")
    assert (first.status, code_of(first)) == (409, "already_exists")
    await setup.do(DropTable(target=t("a")))
    replayed = await setup.api_process().do_once(new_table("a"), "k")
    assert (replayed.status, code_of(replayed)) == (409, "already_exists")
    assert await names_in(await setup.head()) == []
    await setup.close()


async def test_a_transient_error_is_not_recorded_as_an_outcome() -> None:
    setup = await started()
    setup.channel.next(is_down)
    with pytest.raises(Unavailable):
        await setup.api.do_once(new_table("a"), "k")
    setup.clock.pass_by(timedelta(seconds=3))
    assert done_of(await setup.api.do_once(new_table("a"), "k")).name == "a"
    await setup.close()


async def test_while_another_is_at_work_a_second_request_only_looks() -> None:
    setup = await started()
    arrive = setup.runtime.tasks.event()
    setup.channel.next(delayed(arrive))
    first = asyncio.create_task(setup.api.do_once(new_table("a"), "k"))
    await until(lambda: len(setup.channel.calls) == 3)
    with pytest.raises(Unavailable) as busy:
        await setup.api_process().do_once(new_table("a"), "k")
    assert busy.value.retry_after_ms
    arrive.set()
    assert done_of(await first).name == "a"
    await setup.close()


class Killed(BaseException):
    """The process is gone: nothing is caught, nothing is cleaned up."""


async def published_and_killed(channel: CompactorChannel, call: SyncCompact) -> PublishedCommit:
    await channel.inner.sync_compact(call)
    channel.published += 1
    await asyncio.Event().wait()
    raise Killed


async def test_after_a_crash_between_commit_and_outcome_the_retry_finds_the_commit() -> None:
    setup = await started()
    setup.channel.next(published_and_killed)
    victim = setup.api_process()
    before = (await setup.head()).number
    setup.api.lease.lost()
    dead_call = asyncio.create_task(victim.do_once(new_table("a", "id bigint"), "k"))
    await until(lambda: setup.channel.published > 0)
    number = before + 1
    # At once: what has landed needs no takeover.
    answer = done_of(await setup.api.do_once(new_table("a", "id bigint"), "k"))
    assert answer.number == number
    committed = await (await setup.head()).table(t("a"))
    assert (answer.id, answer.commit) == (committed.row.table_id, committed.commit)
    assert answer.columns == ["id"]
    assert await outcomes_recorded(setup, "k") == 2
    await bury(dead_call, victim, setup)


async def test_an_unfinished_request_is_taken_over_with_the_same_ids() -> None:
    setup = await started()
    arrive = setup.runtime.tasks.event()
    victim = setup.api_process()
    setup.api.lease.lost()
    setup.channel.next(delayed(arrive, is_lost))
    sent = len(setup.channel.calls)
    dead_call = asyncio.create_task(victim.do_once(new_table("a"), "k"))
    await until(lambda: len(setup.channel.calls) > sent)
    meant = json.decode(bytes(setup.channel.calls[-1].events[0].payload), dict[str, object])
    victim.lease.lost()
    setup.clock.pass_by(timedelta(seconds=3))
    answer = done_of(await setup.api.do_once(new_table("a"), "k"))
    assert answer.id == meant["object_id"]
    await bury(dead_call, victim, setup)


async def attached_once(
    api_process: ApiProcess, table: str, meant_requests: list[AttachTable]
) -> Answer:
    """Attach a table whose id the claim has fixed."""

    def request_of(claim: Claim) -> Ddl:
        request = attach(1)
        location = f"warehouse/{claim.ids['object']}/"
        meant_requests.append(
            msgspec.structs.replace(request, table_id=claim.ids["object"], location=location)
        )
        return meant_requests[-1]

    ids = {"object": table, "metadata": "1"}
    work = ChangeWork(api_process.committer, request_of, ANN, Plain(), ids)
    path = key_path(SCOPE, principal=ANN, api="iceberg", operation="create", key="k")
    return await api_process.idempotency.once(path, "body", work)


async def test_a_takeover_asks_for_the_very_object_that_the_first_claim_has_fixed() -> None:
    setup = await started()
    meant_requests: list[AttachTable] = []
    setup.channel.next(is_down)
    with pytest.raises(Unavailable):
        await attached_once(setup.api, table_id(1), meant_requests)
    setup.clock.pass_by(timedelta(seconds=3))
    taker = setup.api_process()
    setup.api.lease.lost()
    answer = done_of(await attached_once(taker, table_id(2), meant_requests))
    assert answer.id == table_id(1)
    assert [each.table_id for each in meant_requests] == [table_id(1)] * 2
    assert done_of(await attached_once(setup.api, table_id(3), meant_requests)) == answer
    assert len(meant_requests) == 2
    await setup.close()


async def bury(dead_call: "asyncio.Task[Answer]", victim: ApiProcess, setup: CatalogSetup) -> None:
    """End a process that was killed: its tasks would outlive the test."""
    dead_call.cancel()
    if victim.committer._pump is not None:
        victim.committer._pump.cancel()
    setup.api_processes.remove(victim)
    await victim.lease.close()
    await setup.close()


async def test_of_an_old_holder_and_its_takeover_only_one_publishes() -> None:
    setup = await started()
    taker = setup.api_process()
    answers: list[Answer] = []

    async def take_over() -> None:
        setup.clock.pass_by(timedelta(seconds=3))
        setup.api.lease.lost()
        answers.append(await taker.do_once(new_table("a"), "k"))

    setup.channel.next(after(take_over))
    mine = await setup.api.do_once(new_table("a"), "k")
    assert done_of(mine).number == done_of(answers[0]).number
    assert [name for m in await setup.manifests() for name in m.requests if name] == [
        *dict.fromkeys(name for m in await setup.manifests() for name in m.requests)
    ]
    assert await names_in(await setup.head()) == ["a"]
    await setup.close()


def during_append(setup: CatalogSetup, step: Callable[[], Awaitable[None]]) -> None:
    """Something happens while our first append is on its way."""
    writer = setup.api.committer._writer
    append, done = writer.append, asyncio.Event()

    async def slow(events: Sequence[Envelope]) -> AppendReceipt:
        if not done.is_set():
            done.set()
            await step()
        return await append(events)

    writer.append = slow  # type: ignore[method-assign]


async def test_a_request_taken_over_in_a_group_delays_no_other() -> None:
    setup = await started()
    takeover_answers: list[Answer] = []

    async def take_over() -> None:
        setup.clock.pass_by(timedelta(seconds=3))
        setup.api.lease.lost()
        takeover_answers.append(await setup.api_process().do_once(new_table("keyed"), "k"))

    during_append(setup, take_over)
    keyed, plain = await asyncio.gather(
        setup.api.do_once(new_table("keyed"), "k"), setup.api.do(new_table("plain"))
    )
    assert done_of(keyed) == done_of(takeover_answers[0])
    assert plain.object.row.name == "plain"
    assert await names_in(await setup.head()) == ["keyed", "plain"]
    await setup.close()


class UncontestedHold:
    """The hold of a claim that was not taken over."""

    takes_over = False
    may_be_taken_over = True

    async def check(self) -> None:
        return


async def test_under_a_key_a_change_does_not_depend_on_its_group() -> None:
    setup = await started()
    runtime, inner = setup.runtime, SchemaName("default", ("s", "inner"))
    keyed = PendingRequest(
        request=new_table("keyed", schema=inner),
        actor=ANN,
        request_id=new_ulid(runtime),
        new_id=new_object_id(runtime),
        arrived_ms=runtime.clock.elapsed_ms(),
        done=runtime.tasks.event(),
        hold=UncontestedHold(),
    )
    schema, table, plain = await asyncio.gather(
        setup.api.do(CreateSchema(catalog="default", parent=("s",), name="inner")),
        setup.api.committer.submit(keyed),
        setup.api.do(new_table("plain", schema=inner)),
    )
    # A process that takes the key over decides without the group: it has no such schema, and refuses.
    assert schema.number + 1 == table.number == plain.number
    await setup.close()


async def test_a_taken_over_holder_publishes_nothing_though_the_takeover_has_not_begun() -> None:
    setup = await started()

    async def claim_only() -> None:
        setup.clock.pass_by(timedelta(seconds=3))
        setup.api.lease.lost()
        setup.channel.next(is_down)
        with pytest.raises(Unavailable):
            await setup.api_process().do_once(new_table("keyed"), "k")

    during_append(setup, claim_only)
    keyed, plain = await asyncio.gather(
        setup.api.do_once(new_table("keyed"), "k"),
        setup.api.do(new_table("plain")),
        return_exceptions=True,
    )
    assert isinstance(keyed, Unavailable)
    assert not isinstance(plain, BaseException)
    assert await names_in(await setup.head()) == ["plain"]
    await setup.close()


async def test_a_lost_answer_under_a_key_is_a_success() -> None:
    setup = await started()
    setup.channel.next(answer_is_lost)
    first = await setup.api.do_once(new_table("a"), "k")
    assert done_of(first).name == "a"
    assert bytes((await setup.api.do_once(new_table("a"), "k")).body) == bytes(first.body)
    await setup.close()


async def test_an_unknown_outcome_under_a_key_stays_unknown_until_the_commit_is_read() -> None:
    setup = await started()
    setup.channel.next(is_lost)
    with pytest.raises(Unknown):
        await setup.api.do_once(new_table("a"), "k")
    await setup.compactor.sync_compact(setup.channel.calls[-1])
    answer = done_of(await setup.api.do_once(new_table("a"), "k"))
    assert answer.commit_ulid == setup.channel.calls[-1].commit_ulid
    assert await names_in(await setup.head()) == ["a"]
    await setup.close()


async def test_a_refusal_by_the_store_is_no_verdict_on_the_request() -> None:
    setup = await started()
    setup.channel.next(refused(Denied("the service token is not ours")))
    with pytest.raises(Unavailable):
        await setup.api.do_once(new_table("a"), "k")
    assert await outcomes_recorded(setup, "k") == 1, "a claim, and no outcome"
    await setup.close()


async def test_keys_are_apart_for_each_operation() -> None:
    setup = await started()
    await setup.api.do_once(new_table("a"), "k")
    await setup.api.do_once(DropTable(target=t("a")), "k")
    request: CreateTable = new_table("a")
    await setup.api.do_once(request, "k2")
    assert await names_in(await setup.head()) == ["a"]
    await setup.close()


async def test_many_under_keys_share_a_group_and_retry_together() -> None:
    setup = await started()
    before = (await setup.head()).number

    async def one(n: int) -> Answer:
        return await setup.api.do_once(new_table(f"t{n}"), f"k{n}")

    first = await asyncio.gather(*(one(n) for n in range(20)))
    assert (await setup.head()).number <= before + 4
    replayed = await asyncio.gather(*(one(n) for n in range(20)))
    assert [bytes(each.body) for each in replayed] == [bytes(each.body) for each in first]
    await setup.close()


async def test_collected_evidence_makes_only_its_own_request_unknown() -> None:
    setup = await started()
    setup.channel.next(is_down)
    with pytest.raises(Unavailable):
        await setup.api.do_once(new_table("old"), "k")
    for n in range(4):
        await setup.table(f"t{n}")
    janitor = setup.store(Role.JANITOR)
    head = (await setup.head()).number
    await manifests_of(janitor, "catalog").raise_floor(head)
    setup.clock.pass_by(timedelta(seconds=3))
    old, plain = await asyncio.gather(
        setup.api.do_once(new_table("old"), "k"),
        setup.api.do(new_table("plain")),
        return_exceptions=True,
    )
    assert isinstance(old, Unknown)
    assert not isinstance(plain, BaseException)
    await setup.close()
