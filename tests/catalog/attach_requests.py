"""Requests about tables whose state is a separate chain, by numbers instead of ids."""

from uuid import UUID

import pytest

from arco.catalog.ddl import AttachedColumn, AttachTable, Ddl, SchemaName
from arco.catalog.decision import WorkspaceRules
from arco.catalog.location import place_name
from arco.catalog.model import TableFormat, TableRow
from arco.core.errors import ArcoError
from tests.catalog.catalog_setup import CatalogSetup, S, open_setup, started

FOREIGN = "0c0ffee0-0000-4000-8000-000000000001"


def table_id(number: int) -> str:
    return str(UUID(int=0x018F_0000_0000_7000_8000_0000_0000_0000 + number))


def attach(
    number: int, *, name: str | None = None, location: str | None = None, uuid: str | None = None
) -> AttachTable:
    """A request for the table with this number."""
    return AttachTable(
        table_id=table_id(number),
        schema=S,
        name=name or f"t{number}",
        location=location or f"warehouse/{table_id(number)}/",
        table_uuid=uuid,
        columns=(column(1, "id"), column(2, "v")),
        born=0,
        projected=0,
    )


def column(field_id: int, name: str, data_type: str = "bigint") -> AttachedColumn:
    return AttachedColumn(field_id=field_id, name=name, data_type=data_type)


S2 = SchemaName("default", ("s2",))


RULED = WorkspaceRules(
    routed_formats=frozenset({TableFormat.ICEBERG}), own_roots=("s3://ours/root/",)
)


async def routed_setup() -> CatalogSetup:
    return await started(open_setup(rules=RULED))


async def refuses(setup: CatalogSetup, request: Ddl, kind: type[ArcoError]) -> str:
    """A request is refused, and nothing has changed."""
    before = (await setup.manifests())[-1].rows_changed_at
    with pytest.raises(kind) as refused:
        await setup.do(request)
    assert type(refused.value) is kind
    assert (await setup.manifests())[-1].rows_changed_at == before
    return str(refused.value)


async def row_of(setup: CatalogSetup, number: int) -> TableRow:
    """The row as another process reads it, dropped or not."""
    committed = await (await setup.cold().head()).find(table_id(number), dropped=True)
    assert isinstance(committed.row, TableRow)
    return committed.row


async def places(setup: CatalogSetup, location: str) -> list[str]:
    """The tables at, in or around a location."""
    place_rows = await (await setup.cold().head()).places_around(place_name(location))
    return sorted(each.row.table_id for each in place_rows)
