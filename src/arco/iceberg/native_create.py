"""New tables and views as the catalog's own API asks for them.

Columns are Iceberg's, and so is a comment, which engines show; properties, tags, owner and what is personal
in the columns are the catalog's alone, and are there with the name, in one commit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from arco.catalog.column_change import spec_values
from arco.catalog.ddl import (
    AttachedColumn,
    AttachTable,
    ColumnSpec,
    CreateTable,
    Description,
    SchemaName,
)
from arco.catalog.model import ObjectKind
from arco.catalog.name import check_comment, check_name, check_owner, check_properties, check_tags
from arco.core.errors import Invalid
from arco.core.ids import new_object_id
from arco.core.json import Json
from arco.iceberg.context import Caller, Desk
from arco.iceberg.create import Birth, Newborn, check_new, remembered
from arco.iceberg.engine.columns import schema_of
from arco.iceberg.engine.new_table import new_table
from arco.iceberg.engine.table import FORMAT_VERSION
from arco.iceberg.engine.view_metadata import new_view
from arco.iceberg.name_resolution import Name
from arco.iceberg.pointer import Pointer
from arco.iceberg.view_request import CreateView, Query
from arco.iceberg.wire import CreateTableRequest, CreateViewRequest

SUMMARY: dict[str, Json] = {"engine-name": "arco"}

_WITH_DEFAULTS = "3"  # the first version of the format in which columns have default values


@dataclass(frozen=True)
class NativeBirth(Birth):
    """A birth with what the catalog's own API says of it."""

    said: Description = field(default_factory=Description)
    columns: tuple[ColumnSpec, ...] = ()

    def attach(self, desk: Desk, table_id: str, pointer: Pointer) -> AttachTable:
        """How the catalog is asked for the name."""
        plain = super().attach(desk, table_id, pointer)
        return msgspec.structs.replace(
            plain,
            comment=self.said.comment,
            properties=self.said.properties,
            tags=self.said.tags,
            owner=self.said.owner,
            columns=marked(plain.columns, self.columns),
        )


def table_birth(desk: Desk, request: CreateTable, caller: Caller) -> Birth:
    """The birth of a table; what is wrong with it is said before anything is done."""
    _check_said(request)
    check_columns(request.columns)
    properties = _comment(request)
    if any(column.default_value is not None for column in request.columns):
        properties[FORMAT_VERSION] = _WITH_DEFAULTS
    wish = CreateTableRequest(
        name=request.name, schema=schema_of(request.columns), properties=properties
    )

    def build(table_id: str) -> Newborn:
        location = (request.location or "").rstrip("/") or desk.locations.managed(table_id)
        now_ms = desk.runtime.clock.now_ms()
        metadata = new_table(wish, table_uuid=table_id, location=location, now_ms=now_ms)
        check_new(desk, metadata, table_id)
        return Newborn(metadata)

    make = remembered(build)
    make(str(new_object_id(desk.runtime)))
    return NativeBirth(
        name=_name(request.schema, request.name, "table"),
        kind=ObjectKind.TABLE,
        caller=caller,
        operation="create",
        make=make,
        said=request,
        columns=request.columns,
    )


def view_birth(desk: Desk, request: CreateView, caller: Caller) -> Birth:
    """The birth of a view."""
    _check_said(request)
    check_columns(request.columns)
    namespace = request.default_namespace
    version: dict[str, Json] = {
        "summary": SUMMARY,
        "default-catalog": request.default_catalog,
        "default-namespace": [*(request.schema.path if namespace is None else namespace)],
        "representations": representations(request.queries),
    }
    wish = CreateViewRequest(
        name=request.name,
        schema=schema_of(request.columns),
        view_version=version,
        properties=_comment(request),
    )

    def build(view_id: str) -> Newborn:
        location, now_ms = desk.locations.managed(view_id), desk.runtime.clock.now_ms()
        metadata = new_view(wish, view_uuid=view_id, location=location, now_ms=now_ms)
        check_new(desk, metadata, view_id)
        return Newborn(metadata)

    make = remembered(build)
    make(str(new_object_id(desk.runtime)))
    return NativeBirth(
        name=_name(request.schema, request.name, "view"),
        kind=ObjectKind.VIEW,
        caller=caller,
        operation="create",
        make=make,
        said=request,
        columns=request.columns,
    )


def representations(queries: Sequence[Query]) -> list[Json]:
    """Queries as a view's metadata have them."""
    if not all(query.sql.strip() for query in queries):
        raise Invalid("the query of a view is empty")
    return [{"type": "sql", "sql": query.sql, "dialect": query.dialect} for query in queries]


def marked(
    columns: Sequence[AttachedColumn], specs: Sequence[ColumnSpec]
) -> tuple[AttachedColumn, ...]:
    """Columns with what was said of them that is the catalog's own."""
    said = {spec.name: spec for spec in specs}
    return tuple(
        each
        if each.name not in said
        else msgspec.structs.replace(
            each, pii_type=said[each.name].pii_type, sensitivity=said[each.name].sensitivity
        )
        for each in columns
    )


def check_columns(columns: Sequence[ColumnSpec]) -> None:
    """`Invalid` if one of them could not be shown: what is committed to Iceberg is not taken back."""
    for column in columns:
        spec_values(column)


def _check_said(request: Description) -> None:
    """`Invalid` if the catalog would refuse what is said of an object."""
    if request.comment is not None:
        check_comment(request.comment)
    check_properties(request.properties)
    check_tags(request.tags)
    if request.owner is not None:
        check_owner(request.owner)


def _comment(request: Description) -> dict[str, str]:
    return {} if request.comment is None else {"comment": request.comment}


def _name(schema: SchemaName, name: str, what: str) -> Name:
    return Name(schema.catalog, schema.path, check_name(name, what))
