"""From rows to documents."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import UNSET

from arco.api.wire import (
    CatalogThing,
    ColumnThing,
    Representation,
    SchemaThing,
    TableThing,
    ViewThing,
)
from arco.catalog.model import (
    CatalogRow,
    ColumnRow,
    Described,
    Found,
    ObjectKind,
    SchemaRow,
    TableRow,
    TableType,
)
from arco.catalog.name import print_dotted


def catalog_thing(found: Found[CatalogRow]) -> CatalogThing:
    """A catalog as it is sent."""
    row = found.row
    return CatalogThing(
        id=row.catalog_id,
        kind=ObjectKind.CATALOG,
        name=row.name,
        full_name=print_dotted((row.name,)),
        commit=found.commit,
        **_said(row),
    )


def schema_thing(found: Found[SchemaRow], catalog: str) -> SchemaThing:
    """A schema as it is sent."""
    row = found.row
    return SchemaThing(
        id=row.schema_id,
        kind=ObjectKind.SCHEMA,
        name=row.name,
        full_name=print_dotted((catalog, *row.path)),
        catalog=catalog,
        schema=row.path,
        catalog_id=row.catalog_id,
        parent_id=row.parent_id,
        commit=found.commit,
        **_said(row),
    )


def table_thing(
    found: Found[TableRow],
    catalog: str,
    schema: tuple[str, ...],
    columns: Sequence[ColumnRow] | None = None,
    *,
    root: str = "",
) -> TableThing:
    """A table as it is sent, with its columns where they are given; a managed one lies below `root`."""
    row = found.row
    return TableThing(
        id=row.table_id,
        kind=row.kind,
        name=row.name,
        full_name=print_dotted((catalog, *schema, row.name)),
        catalog=catalog,
        schema=schema,
        catalog_id=row.catalog_id,
        schema_id=row.schema_id,
        format=row.format,
        table_type=row.table_type,
        location=_location(row, root),
        schema_version=row.schema_version,
        pii_columns=row.pii_columns,
        columns=UNSET if columns is None else tuple(column_thing(each) for each in columns),
        commit=found.commit,
        **_said(row),
    )


@dataclass(frozen=True)
class Definition:
    """What a view shows: its queries, and where the names in them lie that are not whole."""

    queries: tuple[Representation, ...]
    catalog: str | None
    namespace: tuple[str, ...]


def view_thing(table: TableThing, definition: Definition | None = None) -> ViewThing:
    """A view as it is sent, with its definition where that is known."""
    fields = msgspec.structs.asdict(table)
    if definition is None:
        return ViewThing(**fields)
    return ViewThing(
        **fields,
        representations=definition.queries,
        default_catalog=definition.catalog,
        default_namespace=definition.namespace,
    )


def column_thing(row: ColumnRow) -> ColumnThing:
    """A column as it is sent."""
    return ColumnThing(
        id=row.column_id,
        name=row.name,
        data_type=row.data_type,
        position=row.position,
        nullable=row.nullable,
        comment=row.comment,
        default_value=row.default_value,
        pii_type=row.pii_type,
        sensitivity=row.sensitivity,
        created_at=row.created_at,
        created_by=row.created_by,
        updated_at=row.updated_at,
        updated_by=row.updated_by,
    )


def _location(row: TableRow, root: str) -> str | None:
    if row.location is None or row.table_type is not TableType.MANAGED:
        return row.location
    return root + row.location


def _said(row: Described) -> dict[str, Any]:
    return {
        "comment": row.comment,
        "properties": row.properties,
        "tags": row.tags,
        "owner": row.owner,
        "created_at": row.created_at,
        "created_by": row.created_by,
        "updated_at": row.updated_at,
        "updated_by": row.updated_by,
        "dropped_at": UNSET if row.dropped_at is None else row.dropped_at,
    }
