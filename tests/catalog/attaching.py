"""Requests about tables whose state is a chain of its own, by numbers instead of ids."""

from uuid import UUID

from arco.catalog.ddl import AttachedColumn, AttachTable
from tests.catalog.workshop import S

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
