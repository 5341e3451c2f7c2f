"""Of all attempts at a task one publishes, with late attempts, lost answers and takeovers (P35)."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from arco.api.iceberg.errors import FENCED
from arco.catalog.ddl import TableName
from arco.catalog.publication import ATTEMPT_PROPERTY, DispatchedAttempt, NumberedPublication
from arco.core import json
from arco.core.errors import ArcoError, AttemptFenced, NotFound, Unavailable, Unknown
from arco.iceberg.pointer import PointerOperation
from arco.iceberg.pointer_head import GRACE_MS
from arco.iceberg.wire import CommitTableRequest
from arco.storage.chain import SHORTEST_RETENTION_MS, Chain
from arco.storage.chain_gc import DEFAULT_RETENTION_MS, collect
from arco.storage.roles import Role
from tests.catalog.catalog_setup import until
from tests.iceberg.engine.sample_metadata import point, snapshot, update
from tests.iceberg.iceberg_setup import (
    ELSEWHERE,
    OUTCOME,
    IcebergSetup,
    StoreConnection,
    dies,
    making,
    marking,
    on,
    pointer_key,
    refusal,
    refusal_of,
    with_table,
)
from tests.iceberg.publishing import TASK, adding, attempt_at, current, publish, stage


async def _publications(setup: IcebergSetup, table_id: str) -> list[tuple[str, str, bool] | None]:
    """What each number publishes: its operation, the attempt, whether it is a fence."""
    return [
        None
        if each.publication is None
        else (each.operation, each.publication.attempt_id, each.publication.is_fence)
        for each in await setup.pointers(table_id)
    ]


async def test_a_pointer_names_the_attempt_that_it_publishes() -> None:
    setup, [table_id] = await with_table("t")
    one = attempt_at(setup, "one", 0)
    await publish(setup.a, 1, one)
    assert await _publications(setup, table_id) == [None, ("commit", "one", False)]
    assert (await setup.pointers(table_id))[1].publication == one.publication()


async def test_a_staged_snapshot_publishes_nothing_until_main_moves_to_it() -> None:
    setup, [table_id] = await with_table("t")
    await stage(setup.a, 1, attempt_at(setup, "one", 0))
    assert await _publications(setup, table_id) == [None, None]
    assert await current(setup.b) is None
    await setup.a.commit("t", point(1))
    assert await _publications(setup, table_id) == [None, None, ("commit", "one", False)]
    assert await current(setup.b) == 1


async def test_of_two_attempts_at_a_partition_the_first_publishes_and_the_second_is_refused() -> (
    None
):
    setup, [table_id] = await with_table("t")
    await publish(setup.a, 1, attempt_at(setup, "one", 0))
    fenced = await refusal(publish(setup.b, 2, attempt_at(setup, "two", 0)))
    assert (fenced.status, fenced.kind) == (403, "AttemptFencedException")
    assert fenced.message == f"attempt one of {TASK} has published ds=1 at version 1"
    assert await current(setup.a) == 1
    assert len(await setup.chain(table_id)) == 2


async def test_two_attempts_that_publish_at_once_are_distinguished_at_the_second_try() -> None:
    setup, [table_id] = await with_table("t")
    other = attempt_at(setup, "two", 0)
    setup.a.connection.before(
        "create", pointer_key(table_id, 1), lambda: publish(setup.b, 2, other)
    )
    lost = await refusal(publish(setup.a, 1, attempt_at(setup, "one", 0)))
    assert lost.kind == "AttemptFencedException"
    assert await _publications(setup, table_id) == [None, ("commit", "two", False)]


async def test_attempts_at_two_partitions_that_race_both_publish() -> None:
    setup, [table_id] = await with_table("t")
    for number in (1, 2):
        await stage(setup.a, number, _of_partition(setup, number))
    setup.a.connection.before(
        "create", pointer_key(table_id, 3), lambda: setup.b.commit("t", point(2))
    )
    await setup.a.commit("t", point(1))
    publications = [each for each in await _publications(setup, table_id) if each is not None]
    assert [attempt for _, attempt, _ in publications] == ["a2", "a1"]


def _of_partition(setup: IcebergSetup, number: int) -> DispatchedAttempt:
    key = f"ds={number}"
    return attempt_at(setup, f"a{number}", 0, task=f"run/s.t@{key}", partitions=(key,))


async def test_a_publication_of_the_whole_table_concerns_every_partition() -> None:
    setup, _ = await with_table("t")
    await publish(setup.a, 1, attempt_at(setup, "whole", 0, task="run/s.t", partitions=()))
    assert (await refusal(publish(setup.a, 2, attempt_at(setup, "one", 0)))).status == 403


async def test_a_plain_commit_is_no_fence_and_meets_none() -> None:
    setup, [table_id] = await with_table("t")
    await publish(setup.a, 1, None)
    await publish(setup.a, 2, attempt_at(setup, "one", 0))
    await publish(setup.a, 3, None)
    assert await _publications(setup, table_id) == [None, None, ("commit", "one", False), None]


async def test_an_attempt_that_has_published_is_answered_so_and_nothing_happens() -> None:
    setup, [table_id] = await with_table("t")
    one = attempt_at(setup, "one", 0)
    await publish(setup.a, 1, one)
    await publish(setup.a, 2, None)
    repeated_result = await publish(setup.b, 3, one)
    assert repeated_result.location == (await setup.a.load("t")).location
    assert await current(setup.a) == 2
    assert len(await setup.chain(table_id)) == 3


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_publication_whose_answer_was_lost_is_done_when_it_is_asked_for_again(
    key: str | None,
) -> None:
    setup, [table_id] = await with_table("t")
    one = attempt_at(setup, "one", 0)
    setup.a.connection.hide(pointer_key(table_id, 1))
    with pytest.raises(Unknown):
        await publish(setup.a, 1, one, key=key)
    await publish(setup.b, 2, one)
    assert await current(setup.b) == 1
    assert await _publications(setup, table_id) == [None, ("commit", "one", False)]


@pytest.mark.parametrize("after", [False, True])
async def test_a_crash_at_the_create_leaves_one_publication_in_the_end(*, after: bool) -> None:
    """The first attempt's process dies; its task is given to another, whose publication comes late."""
    setup, [table_id] = await with_table("t")
    one, two = attempt_at(setup, "one", 0), attempt_at(setup, "two", 0)
    setup.a.connection.die("create", pointer_key(table_id, 1), after=after)
    await dies(setup.a, publish(setup.a, 1, one))
    fenced = await setup.b.iceberg.fences.fence(table_id, two, since=0)
    if after:
        assert fenced == NumberedPublication(1, one.publication())
        assert await _publications(setup, table_id) == [None, ("commit", "one", False)]
        return
    assert fenced == 1
    two = attempt_at(setup, "two", 1)
    await publish(setup.b, 2, two)
    second_fenced = await refusal(publish(setup.b, 3, one))
    assert second_fenced.message == f"attempt two of {TASK} was given ds=1 at version 1"
    assert await _publications(setup, table_id) == [
        None,
        (PointerOperation.FENCE, "two", True),
        ("commit", "two", False),
    ]


async def test_a_fence_stops_who_is_on_the_way_and_lets_its_own_attempt_pass() -> None:
    setup, [table_id] = await with_table("t")
    two = attempt_at(setup, "two", 0)

    async def fence() -> None:
        assert await setup.b.iceberg.fences.fence(table_id, two, since=0) == 1

    setup.a.connection.before("create", pointer_key(table_id, 1), fence)
    fenced = await refusal(publish(setup.a, 1, attempt_at(setup, "one", 0)))
    assert fenced.kind == "AttemptFencedException"
    await publish(setup.b, 2, attempt_at(setup, "two", 1))
    assert await current(setup.a) == 2


async def test_a_fence_that_loses_against_the_publication_finds_it() -> None:
    setup, [table_id] = await with_table("t")
    one = attempt_at(setup, "one", 0)
    setup.b.connection.before("create", pointer_key(table_id, 1), lambda: publish(setup.a, 1, one))
    publication = await setup.b.iceberg.fences.fence(table_id, attempt_at(setup, "two", 0), since=0)
    assert publication == NumberedPublication(1, one.publication())


async def test_a_fence_of_other_partitions_stops_no_attempt() -> None:
    setup, [table_id] = await with_table("t")
    other = attempt_at(setup, "two", 0, task="run/s.t@ds=2", partitions=("ds=2", "ds=3"))
    await setup.b.iceberg.fences.fence(table_id, other, since=0)
    await publish(setup.a, 1, attempt_at(setup, "one", 0))
    assert await current(setup.a) == 1


async def test_a_fence_changes_nothing_and_is_not_reported() -> None:
    setup, [table_id] = await with_table("t")
    before = await publish(setup.a, 1, None)
    await setup.a.iceberg.fences.fence(table_id, attempt_at(setup, "two", 1), since=1)
    assert (await setup.b.load("t")).location == before.location
    last_pointer, fence = (await setup.pointers(table_id))[1:]
    assert (fence.metadata_location, fence.previous_location) == (before.location, before.location)
    assert (fence.snapshot, fence.table_uuid) == (last_pointer.snapshot, last_pointer.table_uuid)
    for api in (setup.a, setup.b):
        await api.iceberg.reconciler.round(full=True)
        await api.settle()
    assert await setup.reported(table_id) == [(0, "create"), (1, "commit")]
    committed_table = await setup.a.mark("t", "x")
    assert "/00003-" in str(committed_table.location)


async def test_a_table_can_be_dropped_and_come_back_behind_a_fence_and_loses_no_publication() -> (
    None
):
    setup, [table_id] = await with_table("t")
    await publish(setup.a, 1, attempt_at(setup, "one", 0))
    await setup.a.iceberg.fences.fence(
        table_id, attempt_at(setup, "two", 1, task="run2/s.t@ds=1"), since=1
    )
    await setup.a.drop("t")
    assert await setup.a.iceberg.fences.number(table_id) is None
    with pytest.raises(NotFound):
        await setup.a.iceberg.fences.fence(table_id, attempt_at(setup, "three", 2), since=2)
    await setup.a.undrop(table_id)
    assert await current(setup.b) == 1
    publications = await _publications(setup, table_id)
    assert publications == [
        None,
        ("commit", "one", False),
        (PointerOperation.FENCE, "two", True),
        None,
        None,
    ]
    assert (await refusal(publish(setup.a, 2, attempt_at(setup, "three", 1)))).status == 403


async def test_no_fence_is_appended_to_an_undecided_head() -> None:
    setup, [table_id, _] = await with_table("t", "u")
    before = (await setup.a.load("t")).location
    setup.a.connection.die("create", OUTCOME)
    await dies(setup.a, setup.a.transact(on("t", marking("x")), on("u", marking("x"))))
    work = asyncio.ensure_future(
        setup.b.iceberg.fences.fence(table_id, attempt_at(setup, "two", 0), since=0)
    )
    await until(lambda: setup.b.connection.count_requests("get", OUTCOME) > 4)
    assert not work.done(), "it waits"
    setup.pass_by(GRACE_MS / 1_000 + 0.1)
    assert await work == 2
    fence = (await setup.pointers(table_id))[2]
    assert (fence.metadata_location, fence.transaction) == (before, None)
    assert (await setup.b.load("t")).location == before


async def test_a_transaction_publishes_no_attempt() -> None:
    setup, [table_id, _] = await with_table("t", "u")
    one = attempt_at(setup, "one", 0)
    both = (on("t", await adding(setup.a, 1, one), point(1)), on("u", marking("x")))
    invalid = await refusal(setup.a.transact(*both))
    assert (invalid.status, invalid.kind) == (400, "BadRequestException")
    await setup.a.transact(on("t", await adding(setup.a, 1, one)), on("u", marking("x")))
    assert await _publications(setup, table_id) == [None, None], "to stage is to publish nothing"
    assert (await refusal(setup.a.transact(_made_with(one), on("u", marking("y"))))).status == 400


def _made_with(attempt: DispatchedAttempt) -> CommitTableRequest:
    """The commit that makes the table `new` with data of an attempt."""
    staged = making("new")
    summary = {"operation": "append", ATTEMPT_PROPERTY: json.encode(attempt).decode()}
    set_location = update("set-location", location=f"{ELSEWHERE}new")
    more = {"manifest-list": f"{ELSEWHERE}new/metadata/snap.avro", "summary": summary}
    first = update("add-snapshot", snapshot=snapshot(9, **more))
    return on("new", *staged.updates, set_location, first, point(9), require=staged.requirements)


async def test_a_transaction_of_one_table_is_a_commit_and_is_checked_like_one() -> None:
    setup, _ = await with_table("t")
    await publish(setup.a, 1, attempt_at(setup, "one", 0))
    fenced_change = on("t", await adding(setup.a, 2, attempt_at(setup, "two", 0)), point(2))
    assert (await refusal(setup.a.transact(fenced_change))).kind == "AttemptFencedException"


async def test_a_table_that_is_made_with_its_first_data_names_their_attempt() -> None:
    setup, _ = await with_table("t")
    await setup.a.transact(_made_with(attempt_at(setup, "one", -1)))
    row = (
        await (await setup.b.context.reader.head()).table(TableName("default", ("s",), "new"))
    ).row
    assert await _publications(setup, row.table_id) == [("create", "one", False)]
    publication = await setup.b.iceberg.fences.fence(
        row.table_id, attempt_at(setup, "two", -1), since=-1
    )
    assert isinstance(publication, NumberedPublication)


async def test_to_go_back_to_a_published_snapshot_and_forward_again_is_no_publication() -> None:
    setup, [table_id] = await with_table("t")
    await publish(setup.a, 1, attempt_at(setup, "one", 0))
    await publish(setup.a, 2, attempt_at(setup, "two", 1, task="later/s.t@ds=1"))
    await setup.b.commit("t", point(1))
    assert await current(setup.a) == 1
    await setup.b.commit("t", point(2))
    assert await current(setup.a) == 2
    assert (await _publications(setup, table_id))[3:] == [None, None]


async def test_a_snapshot_on_top_of_the_attempts_own_does_not_hide_it() -> None:
    setup, _ = await with_table("t")
    late_attempt = attempt_at(setup, "late", 0)
    await publish(setup.a, 1, attempt_at(setup, "one", 0))
    attempt_snapshot, child_snapshot = (
        await adding(setup.a, 2, late_attempt),
        await adding(setup.a, 3, None),
    )
    inner = child_snapshot["snapshot"]
    assert isinstance(inner, dict)
    child_snapshot["snapshot"] = {**inner, "parent-snapshot-id": 2, "sequence-number": 3}
    assert (
        await refusal(setup.a.commit("t", attempt_snapshot, child_snapshot, point(3)))
    ).status == 403


async def test_a_cherry_pick_publishes_the_attempt_that_has_staged_its_source() -> None:
    setup, [table_id] = await with_table("t")
    await stage(setup.a, 1, attempt_at(setup, "one", 0))
    await publish(setup.a, 2, None)
    picked = await adding(setup.a, 3, None)
    inner = picked["snapshot"]
    assert isinstance(inner, dict)
    picked["snapshot"] = {**inner, "summary": {"operation": "append", "source-snapshot-id": "1"}}
    await setup.a.commit("t", picked, point(3))
    assert (await _publications(setup, table_id))[3] == ("commit", "one", False)


BAD = ["", "{}", "[]", '{"attempt_id":"x"}', json.encode({"attempt_id": 1}).decode(), "not json"]


@pytest.mark.parametrize("attempt_text", BAD)
async def test_an_attempt_that_cannot_be_read_is_a_bad_request(attempt_text: str) -> None:
    setup, [table_id] = await with_table("t")
    invalid = await refusal(publish(setup.a, 1, attempt_text or "{"))
    assert (invalid.status, invalid.kind) == (400, "BadRequestException")
    assert len(await setup.chain(table_id)) == 1


@pytest.mark.parametrize("number", [-2, 1, 99])
async def test_an_attempt_from_a_version_that_is_not_there_is_a_bad_request(number: int) -> None:
    setup, _ = await with_table("t")
    assert (await refusal(publish(setup.a, 1, attempt_at(setup, "one", number)))).status == 400


async def test_the_verdict_of_the_fence_is_kept_under_a_key() -> None:
    setup, _ = await with_table("t")
    await publish(setup.a, 1, attempt_at(setup, "one", 0))
    fenced_updates = [await adding(setup.a, 2, attempt_at(setup, "two", 0)), point(2)]
    first = await refusal(setup.a.commit("t", *fenced_updates, key="k"))
    request_count = setup.b.connection.count_requests("get", "iceberg_pointers/")
    repeated_refusal = await refusal(setup.b.commit("t", *fenced_updates, key="k"))
    assert (
        (first.status, first.kind)
        == (repeated_refusal.status, repeated_refusal.kind)
        == (403, first.kind)
    )
    assert repeated_refusal.message == first.message
    assert setup.b.connection.count_requests("create", "iceberg_pointers/") == 0
    assert request_count == 0


async def test_an_attempt_older_than_half_the_retention_does_not_publish() -> None:
    setup, [table_id] = await with_table("t")
    one = attempt_at(setup, "one", 0)
    two = attempt_at(setup, "two", 0, task="run/s.t@ds=2", partitions=("ds=2",))
    await publish(setup.a, 1, one)
    setup.pass_by(DEFAULT_RETENTION_MS / 2_000 + 1)
    old = await refusal(publish(setup.a, 2, two))
    assert (old.status, old.kind) == (403, "AttemptFencedException")
    await publish(setup.a, 3, one)  # it has published, so nothing is to be refused
    assert len(await setup.chain(table_id)) == 2


@pytest.mark.parametrize("hours", [-48, 48])
async def test_a_clock_that_is_set_does_not_matter(hours: int) -> None:
    setup, [table_id] = await with_table("t")
    one, two = attempt_at(setup, "one", 0), attempt_at(setup, "two", 0)
    setup.inner.clock.set_forward(timedelta(hours=hours))
    await publish(setup.a, 1, one)
    setup.inner.clock.set_forward(timedelta(hours=-hours))
    assert (await refusal(publish(setup.a, 2, two))).status == 403
    assert await _publications(setup, table_id) == [None, ("commit", "one", False)]


async def test_an_attempt_whose_versions_were_collected_is_refused_and_so_is_its_fence() -> None:
    setup, [table_id] = await with_table("t")
    one = attempt_at(setup, "one", 0)
    for mark in "xyz":
        await setup.a.mark("t", mark)
    await _collect_all(setup, table_id)
    fenced = await refusal(publish(setup.api(), 1, one))
    assert (fenced.status, fenced.kind) == (403, "AttemptFencedException")
    with pytest.raises(AttemptFenced):
        await setup.api().iceberg.fences.fence(table_id, one, since=0)
    await publish(setup.api(), 2, attempt_at(setup, "two", 3))


async def _collect_all(setup: IcebergSetup, table_id: str) -> None:
    """Raise the floor to the head and delete what lies below, as after a long time."""
    store = setup.inner.store(Role.JANITOR)
    chain = Chain(store, f"_catalog/iceberg_pointers/{table_id}")
    head = await chain.head()
    await chain.raise_floor(head.number)
    done = await collect(chain, retention_ms=SHORTEST_RETENTION_MS)
    assert done.deleted == head.number


async def test_a_store_in_trouble_is_no_verdict() -> None:
    setup, [table_id] = await with_table("t")
    for mark in "xyz":
        await setup.a.mark("t", mark)
    await setup.b.load("t")
    setup.b.connection.fail("get", pointer_key(table_id, 2), Unavailable("cut"))
    with pytest.raises(Unavailable):
        await publish(setup.b, 1, attempt_at(setup, "one", 0))
    setup.b.connection.mend()
    await publish(setup.b, 1, attempt_at(setup, "one", 0))


async def test_what_happened_since_the_dispatch_is_read_once_for_all_attempts() -> None:
    setup, [table_id] = await with_table("t")
    for mark in "uvwxyz":
        await setup.a.mark("t", mark)
    await setup.b.load("t")
    before = len(setup.b.connection.seen)
    await publish(setup.b, 1, _of_partition(setup, 1))
    first = _numbers(setup, table_id, before)
    assert first >= set(range(1, 6))
    before = len(setup.b.connection.seen)
    await publish(setup.b, 2, _of_partition(setup, 2))
    assert not _numbers(setup, table_id, before) & set(range(7))


def _numbers(setup: IcebergSetup, table_id: str, since: int) -> set[int]:
    """The numbers of a chain that a process has asked for since."""
    keys_read = [key for verb, key in setup.b.connection.seen[since:] if verb == "get"]
    return {
        int(key.rpartition("/")[2].removesuffix(".json"))
        for key in keys_read
        if f"iceberg_pointers/{table_id}/0" in key
    }


async def test_a_commit_of_an_attempt_costs_nothing_more_if_nothing_has_happened() -> None:
    setup, [table_id] = await with_table("t")
    await setup.a.mark("t", "x")
    plain = [await adding(setup.a, 1, None), point(1)]
    before = len(setup.a.connection.seen)
    await setup.a.commit("t", *plain)
    cost = _deciding(setup, before)
    landed = [await adding(setup.a, 2, attempt_at(setup, "one", 2)), point(2)]
    before = len(setup.a.connection.seen)
    await setup.a.commit("t", *landed)
    assert _deciding(setup, before) == cost
    assert (await setup.pointers(table_id))[3].publication is not None


def _deciding(setup: IcebergSetup, since: int) -> list[str]:
    """The requests of a commit, without what goes on beside the answer."""
    kinds = ("iceberg_pointers/", "warehouse/", "manifests/")
    requests = setup.a.connection.seen[since:]
    return [
        verb for verb, key in requests if any(k in key for k in kinds) and "head.json" not in key
    ]


async def test_registering_other_metadata_publishes_nothing() -> None:
    setup, [table_id] = await with_table("t")
    first = await setup.a.load("t")
    await publish(setup.a, 1, attempt_at(setup, "one", 0))
    second = await setup.a.load("t")
    await setup.a.register("t", str(first.location), overwrite=True)
    await setup.a.register("t", str(second.location), overwrite=True)
    assert (await _publications(setup, table_id))[2:] == [None, None]
    assert await current(setup.b) == 1


MOST = 60  # requests of one commit, at most


def _at(
    connection: StoreConnection, number: int, step: Callable[[], Awaitable[object]], *, after: bool
) -> None:
    """Do something when so many requests of a process have come by."""
    count = 0

    async def counted() -> None:
        nonlocal count
        count += 1
        if count == number:
            await step()

    (connection.after if after else connection.before)("", "", counted, times=10_000)


async def _take_over(setup: IcebergSetup, table_id: str) -> bool:
    """What the coordinator does before it reassigns the task, then what the second attempt does."""
    api = setup.api()
    fenced = await api.iceberg.fences.fence(table_id, attempt_at(setup, "two", 0), since=0)
    if isinstance(fenced, NumberedPublication):
        assert fenced.publication.attempt_id == "one"
        return False
    await publish(api, 2, attempt_at(setup, "two", fenced))
    return True


@pytest.mark.parametrize("key", [None, pytest.param("k", marks=pytest.mark.sim)])
@pytest.mark.parametrize("after", [False, True])
async def test_a_commit_that_is_paused_at_any_request_publishes_or_is_refused(
    key: str | None, *, after: bool
) -> None:
    ends = set()
    for number in range(1, MOST):
        setup, [table_id] = await with_table("t")
        api = setup.api()
        await api.load("t")
        took: list[bool] = []

        async def take_over(
            setup: IcebergSetup = setup, table_id: str = table_id, took: list[bool] = took
        ) -> None:
            took.append(await _take_over(setup, table_id))

        _at(api.connection, number, take_over, after=after)
        try:
            await publish(api, 1, attempt_at(setup, "one", 0), key=key)
            by = "one"
        except ArcoError as refused:
            # Before its own commit is on the way the client has read the newer table, and is late all
            # the same; after that its snapshot is stale as well.
            assert refusal_of(refused).kind in {FENCED, "CommitFailedException"}
            by = "two"
        if not took:
            break
        assert took == [by == "two"], number
        publications = [each.publication for each in await setup.pointers(table_id)]
        published = [
            each.attempt_id for each in publications if each is not None and not each.is_fence
        ]
        assert published == [by]
        assert await current(setup.api()) == (1 if by == "one" else 2)
        ends.add(by)
    else:
        raise AssertionError("a commit takes more requests than thought")
    # Until its create has reached the store, the first has nothing to show.
    assert ends == ({"one", "two"} if after else {"two"})
