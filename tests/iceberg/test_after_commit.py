"""The steps after a commit: its event, reported once however often it is sent, and its receipts."""

from datetime import UTC

from arco.core import json
from arco.core.errors import Unavailable
from arco.events.table import ICEBERG_COMMITTED, IcebergCommitted
from arco.iceberg.after_commit import CommitReceipt, commit_key, committed_event
from arco.ledger.envelope import Envelope
from arco.storage.roles import Role
from tests.iceberg.engine.sample_metadata import CREATED_MS, add, point
from tests.iceberg.iceberg_setup import (
    IcebergSetup,
    dies,
    marking,
    on,
    pointer_key,
    refusal,
    with_table,
)
from tests.iceberg.publishing import attempt_at, publish


def _payload(event: Envelope) -> IcebergCommitted:
    return json.decode(bytes(event.payload), IcebergCommitted)


async def _events(setup: IcebergSetup) -> list[IcebergCommitted]:
    return sorted(map(_payload, await setup.events()), key=lambda each: each.pointer_number)


async def test_every_change_of_a_table_is_reported() -> None:
    setup, [table_id] = await with_table("t")
    await setup.a.mark("t", "x")
    await setup.b.rename("t", "u")
    await setup.b.drop("u")
    await setup.a.undrop(table_id)
    for api in (setup.a, setup.b):
        await api.settle()
    assert await setup.reported(table_id) == [
        (0, "create"),
        (1, "commit"),
        (2, "drop"),
        (3, "undrop"),
    ]


async def test_an_event_says_who_changed_what_with_which_program() -> None:
    setup, [table_id] = await with_table("t")
    before = await setup.a.load("t")
    committed_table = await setup.a.mark("t", "x")
    await setup.a.settle()
    entry = (await setup.chain(table_id))[1]
    _, event = await _events(setup)
    assert event == IcebergCommitted(
        table_id=table_id,
        pointer_number=1,
        operation="commit",
        actor="user:ann",
        engine="test/1",
        update_source="iceberg_rest",
        metadata_location=str(committed_table.location),
        previous_location=before.location,
        changed=("set-properties",),
        committed_at=entry.record.created_at,
    )


async def test_an_event_carries_the_figures_of_the_snapshot() -> None:
    setup, [table_id] = await with_table("t")
    location = setup.a.context.locations.managed(table_id)
    summary = {
        "operation": "append",
        "total-records": "7",
        "total-files-size": "700",
        "total-data-files": "2",
        "added-records": "3",
        "added-files-size": "not a number",
    }
    body = {"manifest-list": f"{location}/metadata/snap.avro", "summary": summary}
    when = {"sequence-number": 1, "timestamp-ms": CREATED_MS}
    await setup.a.commit("t", add(2**62, **{**body, **when}), point(2**62))
    await setup.a.settle()
    _, event = await _events(setup)
    assert event.snapshot_id == str(2**62), "as text: such ids do not fit into a float"
    assert (event.row_count, event.size_bytes, event.file_count) == (7, 700, 2)
    assert (event.added_rows, event.added_bytes, event.snapshot_operation) == (3, None, "append")


async def test_an_event_says_that_a_pipeline_has_published() -> None:
    setup, _ = await with_table("t")
    await publish(setup.a, 1, attempt_at(setup, "one", 0))
    await publish(setup.a, 2, None)
    await setup.a.settle()
    _, flow, other = await _events(setup)
    assert (flow.update_source, other.update_source) == ("flow", "iceberg_rest")
    assert (flow.run_id, flow.task_id, flow.attempt_id) == ("run", "s.t@ds=1", "one")
    assert (other.run_id, other.task_id, other.attempt_id) == (None, None, None)


async def test_the_envelope_names_the_caller() -> None:
    setup, _ = await with_table("t")
    await setup.a.settle()
    assert [each.caller for each in await setup.events()] == ["user:ann"]


async def test_an_event_has_the_same_id_in_every_process_and_another_for_each_pointer() -> None:
    setup, [table_id] = await with_table("t")
    await setup.a.mark("t", "x")
    first, second = await setup.chain(table_id)
    runtime = setup.inner.runtime
    event = committed_event(runtime, table_id, first)
    setup.pass_by(100)
    repeated_event = committed_event(runtime, table_id, first)
    assert (event.event_id, event.idempotency_key) == (
        repeated_event.event_id,
        repeated_event.idempotency_key,
    )
    assert event.event_id != committed_event(runtime, table_id, second).event_id
    assert event.event_id != committed_event(runtime, "another", first).event_id
    assert event.occurred_at == first.record.created_at
    assert event.received_at != repeated_event.received_at


async def test_an_event_is_of_a_type_that_is_declared() -> None:
    setup, [table_id] = await with_table("t")
    [first] = await setup.chain(table_id)
    event = committed_event(setup.inner.runtime, table_id, first)
    declared = (ICEBERG_COMMITTED.name, ICEBERG_COMMITTED.version)
    assert (event.event_type, event.event_version) == declared
    assert event.occurred_at.tzinfo is UTC or event.occurred_at.utcoffset() is not None
    assert event.source.type == "iceberg"


async def test_the_tables_of_a_transaction_are_reported_once_it_is_decided() -> None:
    setup, ids = await with_table("t", "u")
    await setup.a.settle()

    async def nothing_is_told() -> None:
        for table_id in ids:
            assert await setup.reported(table_id) == [(0, "create")]

    setup.a.connection.before("create", "/outcome.json", nothing_is_told)
    await setup.a.transact(on("t", marking("x")), on("u", marking("x")))
    await setup.a.settle()
    for table_id in ids:
        assert await setup.reported(table_id) == [(0, "create"), (1, "commit")]
    assert len({each.transaction for each in await _events(setup)} - {None}) == 1


async def _receipts(setup: IcebergSetup, state: str) -> list[CommitReceipt]:
    keys = await setup.inner.keys("events/")
    store = setup.inner.store(Role.API)
    return sorted(
        [
            json.decode(await store.get(key), CommitReceipt)
            for key in keys
            if f"/iceberg/{state}/" in key
        ],
        key=lambda each: each.pointer_number,
    )


async def test_a_commit_has_a_pending_and_a_committed_receipt() -> None:
    setup, [table_id] = await with_table("t")
    first = await setup.a.load("t")
    committed_table = await setup.a.mark("t", "x")
    await setup.a.settle()
    for state in ("pending", "committed"):
        create, commit = await _receipts(setup, state)
        assert (create.operation, create.base_location) == ("create", None)
        assert commit == CommitReceipt(
            commit_key=commit_key(str(committed_table.location)),
            table_id=table_id,
            pointer_number=1,
            request_id=(await setup.pointers(table_id))[1].request_id,
            metadata_location=str(committed_table.location),
            base_location=first.location,
            operation="commit",
            actor="user:ann",
            engine="test/1",
        )


async def test_receipts_are_stored_by_day_and_by_commit_key() -> None:
    setup, _ = await with_table("t")
    committed_table = await setup.a.mark("t", "x")
    await setup.a.settle()
    table_id = str(committed_table.metadata["table-uuid"])
    entry = (await setup.chain(table_id))[1]
    day = f"{entry.record.created_at:%Y-%m-%d}"
    name = commit_key(str(committed_table.location))
    keys = await setup.inner.keys("events/")
    assert f"events/{day}/iceberg/pending/{name}.json" in keys
    assert f"events/{day}/iceberg/committed/{name}-{table_id}-1.json" in keys


async def test_a_commit_that_lost_has_only_a_pending_receipt() -> None:
    setup, [table_id] = await with_table("t")
    setup.a.connection.before("create", pointer_key(table_id, 1), lambda: setup.b.drop("t"))
    await refusal(setup.a.mark("t", "x"))
    await setup.a.settle()
    await setup.b.settle()
    lost = [each for each in await _receipts(setup, "pending") if each.operation == "commit"]
    result = [each.operation for each in await _receipts(setup, "committed")]
    assert len(lost) == 1
    assert result == ["create", "drop"]


async def test_a_commit_succeeds_without_its_receipts() -> None:
    setup, [table_id] = await with_table("t")
    await setup.a.settle()
    setup.a.connection.fail("create", "events/", Unavailable("cut"))
    await setup.a.mark("t", "x")
    await setup.a.settle()
    assert len(await setup.chain(table_id)) == 2
    assert table_id in setup.a.context.after_commit.unfinished


async def test_a_commit_that_crashed_at_its_commit_point_has_a_pending_receipt() -> None:
    setup, [table_id] = await with_table("t")
    await setup.a.settle()
    setup.a.connection.die("create", pointer_key(table_id, 1), after=True)
    await dies(setup.a, setup.a.mark("t", "x"))
    assert [each.pointer_number for each in await _receipts(setup, "pending")] == [0, 1]
    assert [each.pointer_number for each in await _receipts(setup, "committed")] == [0]


async def test_a_drop_and_an_undrop_of_one_file_have_different_receipts() -> None:
    setup, [table_id] = await with_table("t")
    await setup.a.drop("t")
    await setup.a.undrop(table_id)
    await setup.a.settle()
    result = await _receipts(setup, "committed")
    assert [each.operation for each in result] == ["create", "drop", "undrop"]
    assert len({each.metadata_location for each in result}) == 1


async def test_receipts_of_a_transaction_name_it() -> None:
    setup, _ = await with_table("t", "u")
    await setup.a.transact(on("t", marking("x")), on("u", marking("x")))
    await setup.a.settle()
    transactions = {each.transaction for each in await _receipts(setup, "committed")}
    assert len(transactions) == 2, "the creates have none, and both commits the same"
