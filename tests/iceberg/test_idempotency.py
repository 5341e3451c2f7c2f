"""Requests with a key take effect once and get the same answer, with a crash at any point."""

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from arco.core.errors import AlreadyExists, Denied, InProgress, KeyReused, Unavailable, Unknown
from arco.core.json import Json
from tests.iceberg.engine.sample_metadata import add, point
from tests.iceberg.iceberg_setup import (
    MANIFESTS,
    OUTCOME,
    POINTERS,
    Api,
    IcebergSetup,
    dies,
    dies_at_the_compactor,
    id_of,
    making,
    marking,
    marks_of,
    on,
    pointer_key,
    refusal,
    with_table,
)

K = "k"

Operation = Callable[[Api], Coroutine[Any, Any, object]]

OPERATIONS: dict[str, Operation] = {
    "create": lambda api: api.create("new", key=K),
    "stage and commit": lambda api: api.iceberg.tables.commit(
        "default", ("s",), "new", making("new"), api.caller("updateTable", K)
    ),
    "commit": lambda api: api.mark("t", "x", key=K),
    "drop": lambda api: api.drop("t", key=K),
    "rename": lambda api: api.rename("t", "moved", key=K),
    "transaction": lambda api: api.transact(on("t", marking("x")), on("u", marking("x")), key=K),
    "transaction with a new table": lambda api: api.transact(
        on("t", marking("x")), making("new"), key=K
    ),
    "make namespace": lambda api: api.make_namespace("n", key=K, properties={"p": "1"}),
    "drop namespace": lambda api: api.drop_namespace("empty", key=K),
}

# What each operation creates in the store when it takes effect.
POINTS = {
    "create": MANIFESTS,
    "stage and commit": MANIFESTS,
    "commit": POINTERS,
    "drop": POINTERS,
    "rename": MANIFESTS,
    "transaction": OUTCOME,
    "transaction with a new table": OUTCOME,
    "make namespace": MANIFESTS,
    "drop namespace": MANIFESTS,
}

every_operation = pytest.mark.parametrize("name", OPERATIONS)


async def _setup() -> IcebergSetup:
    setup, _ = await with_table("t", "u")
    await setup.a.make_namespace("empty")
    await setup.a.settle()
    return setup


async def _state(setup: IcebergSetup) -> dict[str, object]:
    """All that a new process sees of the catalog."""
    api = setup.api()
    names = await api.names()
    shown = {name: (await api.load(name)).raw for name in names}
    spaces = await api.iceberg.namespaces.page("default", (), after=None, limit=None)
    return {"tables": shown, "namespaces": spaces}


def _answer(result: object) -> object:
    return getattr(result, "location", result)


@every_operation
async def test_a_replay_is_answered_the_same_and_changes_nothing(name: str) -> None:
    setup, operation = await _setup(), OPERATIONS[name]
    first = await operation(setup.a)
    await setup.a.settle()
    state = await _state(setup)
    repeated_result = await operation(setup.b)
    assert _answer(repeated_result) == _answer(first)
    assert await _state(setup) == state


@every_operation
async def test_a_request_whose_holder_died_at_the_last_moment_before_is_carried_out_once(
    name: str,
) -> None:
    setup, operation = await _setup(), OPERATIONS[name]
    before = await _state(setup)
    if POINTS[name] == MANIFESTS:
        await dies_at_the_compactor(setup, setup.b, operation(setup.b), arrives=False)
    else:
        setup.b.connection.die("create", POINTS[name])
        await dies(setup.b, operation(setup.b))
    assert await _state(setup) == before
    other = setup.api()
    with pytest.raises(InProgress) as busy:
        await operation(other)
    assert busy.value.retry_after_ms is not None
    setup.pass_by(2.1)
    first = await operation(other)
    after = await _state(setup)
    assert after != before
    await other.settle()
    repeated_result = await operation(setup.api())
    assert _answer(repeated_result) == _answer(first)
    assert await _state(setup) == after


@every_operation
async def test_a_request_whose_holder_died_at_the_first_moment_after_is_answered_as_a_success(
    name: str,
) -> None:
    setup, operation = await _setup(), OPERATIONS[name]
    before = await _state(setup)
    if POINTS[name] == MANIFESTS:
        await dies_at_the_compactor(setup, setup.b, operation(setup.b), arrives=True)
    else:
        setup.b.connection.die("create", POINTS[name], after=True)
        await dies(setup.b, operation(setup.b))
    after = await _state(setup)
    assert after != before, "it has landed"
    await operation(setup.api())
    assert await _state(setup) == after


@every_operation
async def test_the_same_key_with_another_request_is_refused(name: str) -> None:
    setup = await _setup()
    await OPERATIONS[name](setup.a)
    await setup.a.settle()
    state = await _state(setup)
    for other, operation in OPERATIONS.items():
        if other != name:
            with pytest.raises(KeyReused):
                await operation(setup.b)
    with pytest.raises(KeyReused):
        await setup.b.mark("u", "quite another", key=K)
    assert await _state(setup) == state


async def test_a_retry_does_not_meet_the_file_of_its_first_attempt() -> None:
    """A path that follows from the request would make the orphan look like a conflict."""
    setup, [table_id] = await with_table("t")
    setup.a.connection.die("create", pointer_key(table_id, 1))
    await dies(setup.a, setup.a.mark("t", "x", key=K))
    [orphan] = await setup.files("00001-")
    setup.pass_by(2.1)
    committed_table = await setup.b.mark("t", "x", key=K)
    assert not str(committed_table.location).endswith(orphan.rpartition("/")[2])
    assert len(await setup.files("00001-")) == 2
    assert marks_of(committed_table) == {"x"}


async def test_a_failed_requirement_is_an_outcome_and_blocks_no_other_key() -> None:
    setup, _ = await with_table("t")
    failing_requirements: list[dict[str, Json]] = [
        {"type": "assert-current-schema-id", "current-schema-id": 7}
    ]
    first = await refusal(setup.a.commit("t", marking("x"), require=failing_requirements, key=K))
    repeated_refusal = await refusal(
        setup.b.commit("t", marking("x"), require=failing_requirements, key=K)
    )
    assert (first.status, first.kind, first.message) == (
        repeated_refusal.status,
        repeated_refusal.kind,
        repeated_refusal.message,
    )
    assert (first.status, first.kind) == (409, "CommitFailedException")


async def test_a_refusal_stays_even_if_the_reason_is_gone() -> None:
    setup, _ = await with_table("t")
    missing = await refusal(setup.a.mark("later", "x", key=K))
    await setup.a.create("later")
    repeated_refusal = await refusal(setup.b.mark("later", "x", key=K))
    assert (missing.kind, repeated_refusal.kind) == ("NoSuchTableException", "NoSuchTableException")
    assert marks_of(await setup.b.load("later")) == set()


async def test_a_bad_request_is_an_outcome_too() -> None:
    setup, _ = await with_table("t")
    body: dict[str, Json] = {"action": "set-properties", "updates": {"arco.x": "1"}}
    for api in (setup.a, setup.b):
        invalid = await refusal(api.commit("t", body, key=K))
        assert (invalid.status, invalid.kind) == (400, "BadRequestException")


async def test_a_commit_that_landed_before_others_is_found_among_them() -> None:
    """To compare with the newest number alone would miss it."""
    setup, [table_id] = await with_table("t")
    setup.a.connection.die("create", pointer_key(table_id, 1), after=True)
    await dies(setup.a, setup.a.mark("t", "x", key=K))
    for n in range(3):
        await setup.b.mark("t", f"later{n}")
    committed_table = await setup.b.mark("t", "x", key=K)
    assert marks_of(committed_table) == {"x"}, "the answer is what it led to"
    assert len(await setup.chain(table_id)) == 5


async def test_a_commit_that_landed_is_no_refusal_though_its_requirement_fails_by_now() -> None:
    setup, [table_id] = await with_table("t")
    requirements: list[dict[str, Json]] = [
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None}
    ]
    setup.a.connection.die("create", pointer_key(table_id, 1), after=True)
    await dies(
        setup.a, setup.a.commit("t", *_snapshot(setup, table_id, 1), require=requirements, key=K)
    )
    setup.pass_by(2.1)
    committed_table = await setup.b.commit(
        "t", *_snapshot(setup, table_id, 1), require=requirements, key=K
    )
    assert committed_table.metadata["current-snapshot-id"] == 1
    assert len(await setup.chain(table_id)) == 2


def _snapshot(setup: IcebergSetup, table_id: str, number: int) -> list[dict[str, Json]]:
    location = setup.a.context.locations.managed(table_id)
    manifests = {"manifest-list": f"{location}/metadata/snap-{number}.avro"}
    return [add(number, **manifests), point(number)]


async def test_an_old_holder_that_sees_the_commit_of_its_taker_does_not_refuse_it() -> None:
    """Both say the same, and the client deletes no file of a commit that has landed (P12)."""
    setup, [table_id] = await with_table("t")
    requirements: list[dict[str, Json]] = [
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None}
    ]

    async def taken_over() -> None:
        setup.pass_by(2.1)
        await setup.b.commit("t", *_snapshot(setup, table_id, 1), require=requirements, key=K)

    setup.a.connection.before("create", pointer_key(table_id, 1), taken_over)
    committed_table = await setup.a.commit(
        "t", *_snapshot(setup, table_id, 1), require=requirements, key=K
    )
    assert committed_table.metadata["current-snapshot-id"] == 1
    assert len(await setup.chain(table_id)) == 2


async def test_a_holder_that_was_taken_over_before_its_commit_stops() -> None:
    setup, [table_id] = await with_table("t")

    async def taken_over() -> None:
        setup.pass_by(2.1)
        await setup.b.mark("t", "x", key=K)

    setup.a.connection.before("create", f"warehouse/{table_id}/metadata/00001-", taken_over)
    committed_table = await setup.a.mark("t", "x", key=K)
    assert marks_of(committed_table) == {"x"}
    assert len(await setup.chain(table_id)) == 2


async def test_while_a_request_is_under_way_a_second_one_is_asked_to_wait() -> None:
    setup, [table_id] = await with_table("t")

    async def second() -> None:
        with pytest.raises(InProgress) as busy:
            await setup.b.mark("t", "x", key=K)
        assert 0 < (busy.value.retry_after_ms or 0) <= 2_000

    setup.a.connection.before("create", pointer_key(table_id, 1), second)
    await setup.a.mark("t", "x", key=K)
    assert len(await setup.chain(table_id)) == 2


@pytest.mark.parametrize(
    "problem", [AlreadyExists("412"), Unavailable("cut"), Denied("403")], ids=lambda p: p.code
)
@pytest.mark.parametrize("part", ["/metadata/00001-", POINTERS])
async def test_trouble_with_the_store_is_never_kept_as_an_answer(
    part: str, problem: Exception
) -> None:
    setup, _ = await with_table("t")
    setup.a.connection.fail("create", part, problem)
    with pytest.raises((Unavailable, Unknown, Denied)):
        await setup.a.mark("t", "x", key=K)
    setup.a.connection.mend()
    setup.pass_by(2.1)
    assert marks_of(await setup.b.mark("t", "x", key=K)) == {"x"}


async def test_a_success_that_changes_nothing_is_answered_once_its_outcome_is_stored() -> None:
    """Nothing else shows it: a retry might otherwise apply it on top of what came later."""
    setup, [table_id] = await with_table("t")
    await setup.a.mark("t", "x")
    await setup.a.mark("t", "x", key=K)
    await setup.b.commit("t", {"action": "remove-properties", "removals": ["x"]})
    await setup.b.mark("t", "x", key=K)
    assert marks_of(await setup.b.load("t")) == set()
    assert len(await setup.chain(table_id)) == 3


async def test_the_success_of_a_create_stays_one_when_the_table_is_gone() -> None:
    setup, _ = await with_table("t")
    await dies_at_the_compactor(setup, setup.b, setup.b.create("new", key=K), arrives=True)
    loaded_table = await setup.a.load("new")
    await setup.a.drop("new")
    repeated_result = await setup.api().create("new", key=K)
    assert repeated_result.location == loaded_table.location
    assert "new" not in await setup.a.names()


async def test_the_success_of_a_create_stays_one_when_the_table_was_renamed() -> None:
    setup, _ = await with_table("t")
    await dies_at_the_compactor(setup, setup.b, setup.b.create("new", key=K), arrives=True)
    await setup.a.rename("new", "other")
    repeated_result = await setup.api().create("new", key=K)
    assert id_of(repeated_result) == id_of(await setup.a.load("other"))
    assert await setup.a.names() == ["other", "t"]


async def test_a_key_fixes_its_table_even_if_another_gets_the_name() -> None:
    """Else a retry would change another table than the one that the client has seen."""
    setup, [first] = await with_table("t")
    setup.a.connection.die("create", pointer_key(first, 1))
    await dies(setup.a, setup.a.mark("t", "x", key=K))
    await setup.b.drop("t")
    second = id_of(await setup.b.create("t"))
    setup.pass_by(2.1)
    not_found = await refusal(setup.b.mark("t", "x", key=K))
    assert not_found.kind == "NoSuchTableException"
    assert len(await setup.chain(second)) == 1


async def test_another_caller_has_keys_of_its_own() -> None:
    setup, _ = await with_table("t")
    await setup.a.mark("t", "x", key=K)
    theirs = replace(setup.b.caller("dropTable", K), actor="user:bob")
    await setup.b.iceberg.tables.drop("default", ("s",), "t", theirs, purge=False)
    assert await setup.a.names() == []
