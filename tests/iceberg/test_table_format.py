"""Requests of the catalog's own API on Iceberg tables take effect once, with a crash at any point."""

from dataclasses import dataclass
from typing import Any, cast

import msgspec
import pytest

from arco.catalog.ddl import (
    AddColumns,
    CatalogRequest,
    ColumnSpec,
    CreateTable,
    DropTable,
    TableName,
    Undrop,
    UpdateColumn,
    UpdateTable,
)
from arco.catalog.decision import id_of
from arco.catalog.format_router import FormatRouter
from arco.catalog.model import TableFormat, TableRow
from arco.catalog.pending_request import Caller, ChangeResult
from arco.catalog.table_format import TableFormatPort
from arco.core import json
from arco.core.errors import ArcoError, NotFound, Unavailable, Unknown
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

REQUESTS: dict[str, CatalogRequest] = {
    "create": CreateTable(schema=S, name="new", format=TableFormat.ICEBERG, columns=(COLUMN,)),
    "add a column": AddColumns(target=T, columns=(COLUMN,)),
    "change a column": UpdateColumn(target=T, column="id", name="number", pii_type="id"),
    "rename": UpdateTable(target=T, name="moved", comment="by hand"),
    "drop": DropTable(target=T),
}
each_request = pytest.mark.parametrize("name", REQUESTS)


class TextRenderer:
    """Answers as text: the name of the table, its comment and its columns with their classifications."""

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


async def ask(api: Api, request: CatalogRequest) -> Asked:
    """Have a process carry a request out, always under the same key."""
    caller = Caller(ANN, "test/1", "k", "request", api.clock.elapsed_ms(), update_source="native")
    path = key_path(SCOPE, principal=ANN, api="v1", operation="request", key="k")
    work = api.changes.work(request, caller, TextRenderer())
    answer = await api.context.idempotency.once(path, "same", work, arrived_ms=caller.arrived_ms)
    return Asked(answer.status, json.decode(bytes(answer.body), Any))


async def _shop() -> IcebergSetup:
    shop, _ = await with_table("t")
    await shop.a.settle()
    return shop


async def _once(name: str) -> Asked:
    """The answer to a request when nothing fails."""
    shop = await _shop()
    return await ask(shop.a, REQUESTS[name])


@each_request
async def test_a_request_whose_holder_died_after_it_landed_is_finished_by_the_retry(
    name: str,
) -> None:
    wanted, shop = await _once(name), await _shop()
    if name in {"create", "rename"}:
        await dies_at_the_compactor(shop, shop.a, ask(shop.a, REQUESTS[name]), arrives=True)
    else:
        shop.a.line.die("create", POINTERS, after=True)
        await dies(shop.a, ask(shop.a, REQUESTS[name]))
    shop.pass_by(30)
    again = await ask(shop.b, REQUESTS[name])
    assert (again.status, again.result[:3]) == (wanted.status, wanted.result[:3])
    assert (await ask(shop.api(), REQUESTS[name])) == again


@each_request
async def test_a_request_whose_holder_died_before_it_landed_is_taken_over(name: str) -> None:
    wanted, shop = await _once(name), await _shop()
    if name in {"create", "rename"}:
        await dies_at_the_compactor(shop, shop.a, ask(shop.a, REQUESTS[name]), arrives=False)
    else:
        shop.a.line.die("create", POINTERS)
        await dies(shop.a, ask(shop.a, REQUESTS[name]))
    shop.pass_by(30)
    again = await ask(shop.b, REQUESTS[name])
    assert (again.status, again.result[:3]) == (wanted.status, wanted.result[:3])


@each_request
async def test_an_answer_is_the_same_before_its_outcome_is_stored(name: str) -> None:
    shop = await _shop()
    first = await _without_outcome(shop, name)
    again = await ask(shop.b, REQUESTS[name])
    assert again == first


async def _without_outcome(shop: IcebergSetup, name: str) -> Asked:
    """The answer of a process that could not write down that it has answered."""

    async def cut() -> None:
        shop.a.line.fail("create", KEYS, Unavailable("the outcome is lost"))

    shop.a.line.after("create", KEYS, cut)
    first = await ask(shop.a, REQUESTS[name])
    await shop.a.settle()
    assert len(await shop.inner.keys(KEYS)) == 1  # the claim
    return first


async def test_a_repeated_drop_does_not_touch_the_table_that_has_the_name_by_now() -> None:
    shop = await _shop()
    first = await _without_outcome(shop, "drop")
    await shop.b.create("t")
    assert await ask(shop.b, REQUESTS["drop"]) == first
    assert await shop.b.exists("t")


async def test_what_has_landed_is_no_failure_though_its_columns_could_not_be_shown() -> None:
    shop = await _shop()
    shop.a.line.fail("create", "ledger/catalog", Unavailable("no ledger"))
    caller = shop.a.caller("request")
    with pytest.raises(Unknown):
        await shop.a.changes.apply(REQUESTS["add a column"], caller)
    shop.a.line.mend()
    done = await shop.b.changes.apply(REQUESTS["change a column"], shop.b.caller("request"))
    names = [each.name for each in done.columns]
    assert names[0] == "number"
    assert names[-1] == "more"  # an update of the columns includes all of them


async def test_a_column_change_that_loses_the_race_is_made_on_top_of_the_winner() -> None:
    shop = await _shop()

    async def race() -> None:
        await shop.b.mark("t", "raced")

    shop.a.line.before("create", POINTERS, race)
    await shop.a.changes.apply(REQUESTS["add a column"], shop.a.caller("request"))
    loaded = await shop.b.load("t")
    properties = loaded.metadata["properties"]
    assert isinstance(properties, dict)
    assert properties["raced"] == "made"
    schemas = loaded.metadata["schemas"]
    assert isinstance(schemas, list)
    assert len(schemas) == 2


class Untouched:
    """A table format that fails whatever it is asked."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"a table of another format has reached {name}")


async def test_a_parquet_table_never_reaches_another_format() -> None:
    shop = await _shop()
    changes = FormatRouter(
        shop.a.context.committer, {TableFormat.ICEBERG: cast("TableFormatPort", Untouched())}
    )
    days, moved = TableName("default", ("s",), "days"), TableName("default", ("s",), "moved")
    create = CreateTable(schema=S, name="days", format=TableFormat.PARQUET, columns=(COLUMN,))
    made = await changes.apply(create, shop.a.caller("request"))
    for request in (
        UpdateTable(target=days, comment="by hand"),
        AddColumns(target=days, columns=(ColumnSpec(name="other", data_type="int"),)),
        UpdateColumn(target=days, column="more", comment="c"),
        UpdateTable(target=days, name="moved"),
        DropTable(target=moved),
        Undrop(id=id_of(made.object.row)),
    ):
        await changes.apply(request, shop.a.caller("request"))
    with pytest.raises(AssertionError):
        await changes.apply(REQUESTS["drop"], shop.a.caller("request"))


async def test_a_table_that_another_process_has_made_is_known_by_its_format() -> None:
    shop = await _shop()
    await shop.b.context.reader.head()
    await shop.a.create("late")
    late = TableName("default", ("s",), "late")
    drop = DropTable(target=late)
    await shop.b.changes.apply(drop, shop.b.caller("request"))
    assert not await shop.a.exists("late")


async def test_an_undrop_whose_holder_died_is_finished_by_the_retry() -> None:
    shop = await _shop()
    done = await shop.a.changes.apply(REQUESTS["drop"], shop.a.caller("request"))
    row = done.object.row
    assert isinstance(row, TableRow)
    request = Undrop(id=row.table_id)
    await dies_at_the_compactor(shop, shop.a, ask(shop.a, request), arrives=True)
    shop.pass_by(30)
    again = await ask(shop.b, request)
    assert (again.status, again.result[0]) == (200, "t")
    assert len(await shop.pointers(row.table_id)) == 3  # made, dropped, brought back
