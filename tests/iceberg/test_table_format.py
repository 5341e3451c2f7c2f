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
class RequestAnswer:
    status: int
    result: Any


async def ask(api: Api, request: CatalogRequest) -> RequestAnswer:
    """Have a process carry a request out, always under the same key."""
    caller = Caller(ANN, "test/1", "k", "request", api.clock.elapsed_ms(), update_source="native")
    path = key_path(SCOPE, principal=ANN, api="v1", operation="request", key="k")
    work = api.changes.work(request, caller, TextRenderer())
    answer = await api.context.idempotency.once(path, "same", work, arrived_ms=caller.arrived_ms)
    return RequestAnswer(answer.status, json.decode(bytes(answer.body), Any))


async def _setup() -> IcebergSetup:
    setup, _ = await with_table("t")
    await setup.a.settle()
    return setup


async def _once(name: str) -> RequestAnswer:
    """The answer to a request when nothing fails."""
    setup = await _setup()
    return await ask(setup.a, REQUESTS[name])


@each_request
async def test_a_request_whose_holder_died_after_it_landed_is_finished_by_the_retry(
    name: str,
) -> None:
    expected_answer, setup = await _once(name), await _setup()
    if name in {"create", "rename"}:
        await dies_at_the_compactor(setup, setup.a, ask(setup.a, REQUESTS[name]), arrives=True)
    else:
        setup.a.connection.die("create", POINTERS, after=True)
        await dies(setup.a, ask(setup.a, REQUESTS[name]))
    setup.pass_by(30)
    repeated_result = await ask(setup.b, REQUESTS[name])
    assert (repeated_result.status, repeated_result.result[:3]) == (
        expected_answer.status,
        expected_answer.result[:3],
    )
    assert (await ask(setup.api(), REQUESTS[name])) == repeated_result


@each_request
async def test_a_request_whose_holder_died_before_it_landed_is_taken_over(name: str) -> None:
    expected_answer, setup = await _once(name), await _setup()
    if name in {"create", "rename"}:
        await dies_at_the_compactor(setup, setup.a, ask(setup.a, REQUESTS[name]), arrives=False)
    else:
        setup.a.connection.die("create", POINTERS)
        await dies(setup.a, ask(setup.a, REQUESTS[name]))
    setup.pass_by(30)
    repeated_result = await ask(setup.b, REQUESTS[name])
    assert (repeated_result.status, repeated_result.result[:3]) == (
        expected_answer.status,
        expected_answer.result[:3],
    )


@each_request
async def test_an_answer_is_the_same_before_its_outcome_is_stored(name: str) -> None:
    setup = await _setup()
    first = await _without_outcome(setup, name)
    repeated_result = await ask(setup.b, REQUESTS[name])
    assert repeated_result == first


async def _without_outcome(setup: IcebergSetup, name: str) -> RequestAnswer:
    """The answer of a process that could not write down that it has answered."""

    async def cut() -> None:
        setup.a.connection.fail("create", KEYS, Unavailable("the outcome is lost"))

    setup.a.connection.after("create", KEYS, cut)
    first = await ask(setup.a, REQUESTS[name])
    await setup.a.settle()
    assert len(await setup.inner.keys(KEYS)) == 1  # the claim
    return first


async def test_a_repeated_drop_does_not_touch_the_table_that_has_the_name_by_now() -> None:
    setup = await _setup()
    first = await _without_outcome(setup, "drop")
    await setup.b.create("t")
    assert await ask(setup.b, REQUESTS["drop"]) == first
    assert await setup.b.exists("t")


async def test_what_has_landed_is_no_failure_though_its_columns_could_not_be_shown() -> None:
    setup = await _setup()
    setup.a.connection.fail("create", "ledger/catalog", Unavailable("no ledger"))
    caller = setup.a.caller("request")
    with pytest.raises(Unknown):
        await setup.a.changes.apply(REQUESTS["add a column"], caller)
    setup.a.connection.mend()
    done = await setup.b.changes.apply(REQUESTS["change a column"], setup.b.caller("request"))
    names = [each.name for each in done.columns]
    assert names[0] == "number"
    assert names[-1] == "more"  # an update of the columns includes all of them


async def test_a_column_change_that_loses_the_race_is_made_on_top_of_the_winner() -> None:
    setup = await _setup()

    async def race() -> None:
        await setup.b.mark("t", "raced")

    setup.a.connection.before("create", POINTERS, race)
    await setup.a.changes.apply(REQUESTS["add a column"], setup.a.caller("request"))
    loaded = await setup.b.load("t")
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
    setup = await _setup()
    changes = FormatRouter(
        setup.a.context.committer, {TableFormat.ICEBERG: cast("TableFormatPort", Untouched())}
    )
    days, moved = TableName("default", ("s",), "days"), TableName("default", ("s",), "moved")
    create = CreateTable(schema=S, name="days", format=TableFormat.PARQUET, columns=(COLUMN,))
    result = await changes.apply(create, setup.a.caller("request"))
    for request in (
        UpdateTable(target=days, comment="by hand"),
        AddColumns(target=days, columns=(ColumnSpec(name="other", data_type="int"),)),
        UpdateColumn(target=days, column="more", comment="c"),
        UpdateTable(target=days, name="moved"),
        DropTable(target=moved),
        Undrop(id=id_of(result.object.row)),
    ):
        await changes.apply(request, setup.a.caller("request"))
    with pytest.raises(AssertionError):
        await changes.apply(REQUESTS["drop"], setup.a.caller("request"))


async def test_a_table_that_another_process_has_made_is_known_by_its_format() -> None:
    setup = await _setup()
    await setup.b.context.reader.head()
    await setup.a.create("late")
    table_name = TableName("default", ("s",), "late")
    drop = DropTable(target=table_name)
    await setup.b.changes.apply(drop, setup.b.caller("request"))
    assert not await setup.a.exists("late")


async def test_an_undrop_whose_holder_died_is_finished_by_the_retry() -> None:
    setup = await _setup()
    done = await setup.a.changes.apply(REQUESTS["drop"], setup.a.caller("request"))
    row = done.object.row
    assert isinstance(row, TableRow)
    request = Undrop(id=row.table_id)
    await dies_at_the_compactor(setup, setup.a, ask(setup.a, request), arrives=True)
    setup.pass_by(30)
    repeated_result = await ask(setup.b, request)
    assert (repeated_result.status, repeated_result.result[0]) == (200, "t")
    assert len(await setup.pointers(row.table_id)) == 3  # made, dropped, brought back
