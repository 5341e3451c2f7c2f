"""New tables and views with a description: the requests of the catalog's own API.

Columns and the comment, which engines show, go into Iceberg's metadata. Properties, tags, owner and the
PII classification of columns are the catalog's alone, and are added in the same commit as the name.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from arco.catalog.column_change import spec_values
from arco.catalog.ddl import (
    AttachedColumn,
    AttachTable,
    ColumnSpec,
    CreateTable,
    CreateView,
    Description,
    ViewQuery,
)
from arco.catalog.model import ObjectKind
from arco.catalog.name import check_comment, check_name, check_owner, check_properties, check_tags
from arco.catalog.pending_request import Caller
from arco.core.errors import Invalid
from arco.core.ids import new_object_id
from arco.core.json import Json
from arco.iceberg.context import IcebergContext
from arco.iceberg.create import Creation, InitialMetadata, build_once, check_new_metadata
from arco.iceberg.engine.columns import schema_of
from arco.iceberg.engine.new_table import new_table
from arco.iceberg.engine.table import FORMAT_VERSION
from arco.iceberg.engine.view_metadata import new_view
from arco.iceberg.name_resolution import FullName
from arco.iceberg.pointer import Pointer, PointerOperation
from arco.iceberg.wire import CreateTableRequest, CreateViewRequest

SUMMARY: dict[str, Json] = {"engine-name": "arco"}

_WITH_DEFAULTS = "3"  # the first version of the format in which columns have default values


@dataclass(frozen=True)
class DescribedCreation(Creation):
    """A creation with the description from the catalog's own API."""

    description: Description = field(default_factory=Description)
    columns: tuple[ColumnSpec, ...] = ()

    def attach(self, context: IcebergContext, table_id: str, pointer: Pointer) -> AttachTable:
        """The catalog request that adds the name."""
        plain = super().attach(context, table_id, pointer)
        return msgspec.structs.replace(
            plain,
            comment=self.description.comment,
            properties=self.description.properties,
            tags=self.description.tags,
            owner=self.description.owner,
            columns=with_classifications(plain.columns, self.columns),
        )


def table_creation(context: IcebergContext, request: CreateTable, caller: Caller) -> Creation:
    """The creation of a table; a wrong request is refused before anything is written."""
    _check_description(request)
    check_columns(request.columns)
    properties = _comment(request)
    if any(column.default_value is not None for column in request.columns):
        properties[FORMAT_VERSION] = _WITH_DEFAULTS
    change = CreateTableRequest(
        name=request.name, schema=schema_of(request.columns), properties=properties
    )

    def build(table_id: str) -> InitialMetadata:
        location = (request.location or "").rstrip("/") or context.locations.managed(table_id)
        now_ms = context.runtime.clock.now_ms()
        metadata = new_table(change, table_uuid=table_id, location=location, now_ms=now_ms)
        check_new_metadata(context, metadata, table_id)
        return InitialMetadata(metadata)

    return _creation(context, request, ObjectKind.TABLE, caller, build)


def view_creation(context: IcebergContext, request: CreateView, caller: Caller) -> Creation:
    """The creation of a view."""
    _check_description(request)
    check_columns(request.columns)
    namespace = request.default_namespace
    version: dict[str, Json] = {
        "summary": SUMMARY,
        "default-catalog": request.default_catalog,
        "default-namespace": [*(request.schema.path if namespace is None else namespace)],
        "representations": representations(request.queries),
    }
    change = CreateViewRequest(
        name=request.name,
        schema=schema_of(request.columns),
        view_version=version,
        properties=_comment(request),
    )

    def build(view_id: str) -> InitialMetadata:
        location, now_ms = context.locations.managed(view_id), context.runtime.clock.now_ms()
        metadata = new_view(change, view_uuid=view_id, location=location, now_ms=now_ms)
        check_new_metadata(context, metadata, view_id)
        return InitialMetadata(metadata)

    return _creation(context, request, ObjectKind.VIEW, caller, build)


def _creation(
    context: IcebergContext,
    request: CreateTable | CreateView,
    kind: ObjectKind,
    caller: Caller,
    build: Callable[[str], InitialMetadata],
) -> Creation:
    make = build_once(build)
    make(str(new_object_id(context.runtime)))  # raises if the request is wrong
    name = check_name(request.name, kind.lower())
    return DescribedCreation(
        name=FullName(request.schema.catalog, request.schema.path, name),
        kind=kind,
        caller=caller,
        operation=PointerOperation.CREATE,
        make=make,
        description=request,
        columns=request.columns,
    )


def representations(queries: Sequence[ViewQuery]) -> list[Json]:
    """Queries in the form of view metadata."""
    if not all(query.sql.strip() for query in queries):
        raise Invalid("the query of a view is empty")
    return [{"type": "sql", "sql": query.sql, "dialect": query.dialect} for query in queries]


def with_classifications(
    columns: Sequence[AttachedColumn], specs: Sequence[ColumnSpec]
) -> tuple[AttachedColumn, ...]:
    """Columns with the classifications of `specs`."""
    description = {spec.name: spec for spec in specs}
    return tuple(
        each
        if each.name not in description
        else msgspec.structs.replace(
            each,
            pii_type=description[each.name].pii_type,
            sensitivity=description[each.name].sensitivity,
        )
        for each in columns
    )


def check_columns(columns: Sequence[ColumnSpec]) -> None:
    """`Invalid` if the catalog cannot show a column; a commit to Iceberg could not be undone."""
    for column in columns:
        spec_values(column)


def _check_description(request: Description) -> None:
    """`Invalid` if the catalog would refuse the description of an object."""
    if request.comment is not None:
        check_comment(request.comment)
    check_properties(request.properties)
    check_tags(request.tags)
    if request.owner is not None:
        check_owner(request.owner)


def _comment(request: Description) -> dict[str, str]:
    return {} if request.comment is None else {"comment": request.comment}
