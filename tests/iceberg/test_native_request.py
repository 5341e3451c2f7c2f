"""Requests of the catalog's own API on Iceberg tables take effect once, with a crash at any point."""

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from arco.catalog.change import OBJECT, ChangeWork
from arco.catalog.ddl import (
    AddColumns,
    ColumnSpec,
    CreateTable,
    DropTable,
    TableName,
    Undrop,
    UpdateColumn,
    UpdateTable,
)
from arco.catalog.model import TableFormat, TableRow
from arco.catalog.pending_request import ChangeResult
from arco.core import json
from arco.core.errors import ArcoError, NotFound, Unavailable, Unknown
from arco.core.ids import new_object_id
from arco.iceberg.context import Caller
from arco.iceberg.format_routing import NativeRequest
from arco.iceberg.native import plain_request
from arco.ledger.claim import Answer, key_path
from tests.catalog.catalog_setup import ANN, SCOPE, S
from tests.iceberg.iceberg_setup import (
    KEYS,
    POINTERS,
    Api,
    IcebergSetup,
    dies,
    dies_at_the_compactor,
    with_table,
)

T = TableName("default", ("s",), "t")
COLUMN = ColumnSpec(name="more", data_type="int", pii_type="x")

DEEDS: dict[str, NativeRequest] = {
    "create": CreateTable(schema=S, name="new", format=TableFormat.ICEBERG, columns=(COLUMN,)),
    "add a column": AddColumns(target=T, columns=(COLUMN,)),
    "change a column": UpdateColumn(target=T, column="id", name="number", pii_type="id"),
    "rename": UpdateTable(target=T, name="moved", comment="by hand"),
    "drop": DropTable(target=T),
}
every_deed = pytest.mark.parametrize("name", DEEDS)


class Plainly:
    """Answers as text: the name of the table, its comment and its columns with their marks."""

    def done(self, done: ChangeResult) -> Answer:
        row = done.object.row
        assert isinstance(row, TableRow)
        columns = [(each.name, each.pii_type) for each in done.columns]
        body = json.encode([row.name, row.comment, columns, done.object.commit])
        return Answer(status=200, body=msgspec.Raw(body))

    def refused(self, problem: ArcoError) -> Answer:
        status = 404 if isinstance(problem, NotFound) else 409
        return Answer(status=status, body=msgspec.Raw(json.encode(problem.code)))


@dataclass(frozen=True)
class Asked:
    status: int
    result: Any


async def ask(api: Api, request: NativeRequest) -> Asked:
    """Have a process carry a request out, always under the same key."""
    context, native = api.context, api.iceberg.native
    caller = Caller(ANN, "test/1", "k", "deed", api.clock.elapsed_ms(), update_source="native")
    ids: dict[str, str] = {OBJECT: new_object_id(context.runtime)}
    plain = ChangeWork(context.committer, lambda _: plain_request(request), ANN, Plainly(), ids)
    path = key_path(SCOPE, principal=ANN, api="v1", operation="deed", key="k")
    work = native.work(request, caller, plain, Plainly())
    answer = await context.idempotency.once(path, "same", work, arrived_ms=caller.arrived_ms)
    return Asked(answer.status, json.decode(bytes(answer.body), Any))


async def _shop() -> IcebergSetup:
    shop, _ = await with_table("t")
    await shop.a.settle()
    return shop


async def _once(name: str) -> Asked:
    """What a deed is answered in a world where nothing goes wrong."""
    shop = await _shop()
    return await ask(shop.a, DEEDS[name])


@every_deed
async def test_a_request_whose_holder_died_after_it_landed_is_finished_by_the_retry(
    name: str,
) -> None:
    wanted, shop = await _once(name), await _shop()
    if name in {"create", "rename"}:
        await dies_at_the_compactor(shop, shop.a, ask(shop.a, DEEDS[name]), arrives=True)
    else:
        shop.a.line.die("create", POINTERS, after=True)
        await dies(shop.a, ask(shop.a, DEEDS[name]))
    shop.pass_by(30)
    again = await ask(shop.b, DEEDS[name])
    assert (again.status, again.result[:3]) == (wanted.status, wanted.result[:3])
    assert (await ask(shop.api(), DEEDS[name])) == again


@every_deed
async def test_a_request_whose_holder_died_before_it_landed_is_taken_over(name: str) -> None:
    wanted, shop = await _once(name), await _shop()
    if name in {"create", "rename"}:
        await dies_at_the_compactor(shop, shop.a, ask(shop.a, DEEDS[name]), arrives=False)
    else:
        shop.a.line.die("create", POINTERS)
        await dies(shop.a, ask(shop.a, DEEDS[name]))
    shop.pass_by(30)
    again = await ask(shop.b, DEEDS[name])
    assert (again.status, again.result[:3]) == (wanted.status, wanted.result[:3])


@every_deed
async def test_an_answer_is_the_same_before_its_outcome_is_stored(name: str) -> None:
    shop = await _shop()
    first = await _without_outcome(shop, name)
    again = await ask(shop.b, DEEDS[name])
    assert again == first


async def _without_outcome(shop: IcebergSetup, name: str) -> Asked:
    """The answer of a process that could not write down that it has answered."""

    async def cut() -> None:
        shop.a.line.fail("create", KEYS, Unavailable("the outcome is lost"))

    shop.a.line.after("create", KEYS, cut)
    first = await ask(shop.a, DEEDS[name])
    await shop.a.settle()
    assert len(await shop.inner.keys(KEYS)) == 1  # the claim
    return first


async def test_a_repeated_drop_does_not_touch_the_table_that_has_the_name_by_now() -> None:
    shop = await _shop()
    first = await _without_outcome(shop, "drop")
    await shop.b.create("t")
    assert await ask(shop.b, DEEDS["drop"]) == first
    assert await shop.b.exists("t")


async def test_what_has_landed_is_no_failure_though_its_columns_could_not_be_shown() -> None:
    shop = await _shop()
    shop.a.line.fail("create", "ledger/catalog", Unavailable("no ledger"))
    caller = shop.a.caller("deed")
    with pytest.raises(Unknown):
        await shop.a.iceberg.native.carry_out(DEEDS["add a column"], caller)
    shop.a.line.mend()
    done = await shop.b.iceberg.native.carry_out(DEEDS["change a column"], shop.b.caller("deed"))
    assert done is not None
    names = [each.name for each in done.columns]
    assert names[0] == "number"
    assert names[-1] == "more"  # an update of the columns includes all of them


async def test_a_column_change_that_loses_the_race_is_made_on_top_of_the_winner() -> None:
    shop = await _shop()

    async def race() -> None:
        await shop.b.mark("t", "raced")

    shop.a.line.before("create", POINTERS, race)
    done = await shop.a.iceberg.native.carry_out(DEEDS["add a column"], shop.a.caller("deed"))
    assert done is not None
    loaded = await shop.b.load("t")
    properties = loaded.metadata["properties"]
    assert isinstance(properties, dict)
    assert properties["raced"] == "made"
    schemas = loaded.metadata["schemas"]
    assert isinstance(schemas, list)
    assert len(schemas) == 2


async def test_a_table_whose_format_is_not_icebergs_is_the_catalogs_own() -> None:
    shop = await _shop()
    request = CreateTable(schema=S, name="plain", format=TableFormat.CSV)
    assert await shop.a.iceberg.native.carry_out(request, shop.a.caller("deed")) is None


async def test_a_table_that_another_process_has_made_is_known_by_its_format() -> None:
    shop = await _shop()
    await shop.b.context.reader.head()
    await shop.a.create("late")
    late = TableName("default", ("s",), "late")
    drop = DropTable(target=late)
    done = await shop.b.iceberg.native.carry_out(drop, shop.b.caller("deed"))
    assert done is not None
    assert not await shop.a.exists("late")


async def test_an_undrop_whose_holder_died_is_finished_by_the_retry() -> None:
    shop = await _shop()
    done = await shop.a.iceberg.native.carry_out(DEEDS["drop"], shop.a.caller("deed"))
    assert done is not None
    row = done.object.row
    assert isinstance(row, TableRow)
    request = Undrop(id=row.table_id)
    await dies_at_the_compactor(shop, shop.a, ask(shop.a, request), arrives=True)
    shop.pass_by(30)
    again = await ask(shop.b, request)
    assert (again.status, again.result[0]) == (200, "t")
    assert len(await shop.pointers(row.table_id)) == 3  # made, dropped, brought back
