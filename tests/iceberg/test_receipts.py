"""Receipts: a note before a commit, and one once its event is in the ledger."""

from arco.core import json
from arco.core.errors import Unavailable
from arco.iceberg.after_commit import CommitReceipt, commit_key
from arco.storage.roles import Role
from tests.iceberg.workshop import Workshop, dies, marking, on, pointer_key, refusal, with_table


async def _receipts(shop: Workshop, state: str) -> list[CommitReceipt]:
    keys = await shop.inner.keys("events/")
    store = shop.inner.store(Role.API)
    return sorted(
        [
            json.decode(await store.get(key), CommitReceipt)
            for key in keys
            if f"/iceberg/{state}/" in key
        ],
        key=lambda each: each.pointer_number,
    )


async def test_a_commit_has_a_note_before_it_and_one_after_it() -> None:
    shop, [table_id] = await with_table("t")
    first = await shop.a.load("t")
    made = await shop.a.mark("t", "x")
    await shop.a.settle()
    for state in ("pending", "committed"):
        create, commit = await _receipts(shop, state)
        assert (create.operation, create.base_location) == ("create", None)
        assert commit == CommitReceipt(
            commit_key=commit_key(str(made.location)),
            table_id=table_id,
            pointer_number=1,
            request_id=(await shop.pointers(table_id))[1].request_id,
            metadata_location=str(made.location),
            base_location=first.location,
            operation="commit",
            actor="user:ann",
            engine="test/1",
        )


async def test_receipts_lie_by_day_and_by_the_name_of_their_commit() -> None:
    shop, _ = await with_table("t")
    made = await shop.a.mark("t", "x")
    await shop.a.settle()
    table_id = str(made.metadata["table-uuid"])
    entry = (await shop.chain(table_id))[1]
    day = f"{entry.link.created_at:%Y-%m-%d}"
    name = commit_key(str(made.location))
    keys = await shop.inner.keys("events/")
    assert f"events/{day}/iceberg/pending/{name}.json" in keys
    assert f"events/{day}/iceberg/committed/{name}-{table_id}-1.json" in keys


async def test_an_attempt_that_lost_has_only_the_note_before_it() -> None:
    shop, [table_id] = await with_table("t")
    shop.a.line.before("create", pointer_key(table_id, 1), lambda: shop.b.drop("t"))
    await refusal(shop.a.mark("t", "x"))
    await shop.a.settle()
    await shop.b.settle()
    lost = [each for each in await _receipts(shop, "pending") if each.operation == "commit"]
    result = [each.operation for each in await _receipts(shop, "committed")]
    assert len(lost) == 1
    assert result == ["create", "drop"]


async def test_a_commit_goes_on_without_its_notes() -> None:
    shop, [table_id] = await with_table("t")
    await shop.a.settle()
    shop.a.line.fail("create", "events/", Unavailable("cut"))
    await shop.a.mark("t", "x")
    await shop.a.settle()
    assert len(await shop.chain(table_id)) == 2
    assert table_id in shop.a.context.after_commit.unfinished


async def test_a_commit_that_crashed_at_its_point_has_the_note_before_it() -> None:
    shop, [table_id] = await with_table("t")
    await shop.a.settle()
    shop.a.line.die("create", pointer_key(table_id, 1), after=True)
    await dies(shop.a, shop.a.mark("t", "x"))
    assert [each.pointer_number for each in await _receipts(shop, "pending")] == [0, 1]
    assert [each.pointer_number for each in await _receipts(shop, "committed")] == [0]


async def test_a_drop_and_an_undrop_have_receipts_of_their_own_though_they_name_the_same_file() -> (
    None
):
    shop, [table_id] = await with_table("t")
    await shop.a.drop("t")
    await shop.a.undrop(table_id)
    await shop.a.settle()
    result = await _receipts(shop, "committed")
    assert [each.operation for each in result] == ["create", "drop", "undrop"]
    assert len({each.metadata_location for each in result}) == 1


async def test_receipts_of_a_transaction_name_it() -> None:
    shop, _ = await with_table("t", "u")
    await shop.a.transact(on("t", marking("x")), on("u", marking("x")))
    await shop.a.settle()
    named = {each.transaction for each in await _receipts(shop, "committed")}
    assert len(named) == 2, "the creates have none, and both commits the same"
