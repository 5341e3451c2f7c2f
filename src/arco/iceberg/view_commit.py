"""Commits of views: a new version of a view, and the definition in a view's metadata.

The version is built again for each base, so a lost race is retried like that of any commit.
"""

import msgspec
from msgspec import UNSET

from arco.catalog.data_type import normalise
from arco.catalog.ddl import (
    Redefinition,
    ViewQuery,
)
from arco.catalog.pending_request import Caller
from arco.catalog.table_format import ViewDefinition
from arco.core.errors import Invalid
from arco.core.json import Json
from arco.iceberg.column_commit import LAST_ADDED, ProjectedCommit
from arco.iceberg.commit import VIEW_ENGINE
from arco.iceberg.context import IcebergContext
from arco.iceberg.described_creation import SUMMARY, representations
from arco.iceberg.engine import shape
from arco.iceberg.engine.columns import columns_of, field_of
from arco.iceberg.engine.metadata import Metadata, current_schema
from arco.iceberg.engine.schema import index_schema
from arco.iceberg.engine.shape import Object
from arco.iceberg.engine.spark_types import spark_type, with_ids
from arco.iceberg.loaded_metadata import LoadedMetadata
from arco.iceberg.name_resolution import FullName
from arco.iceberg.pointer_head import PointerHead
from arco.iceberg.prepared_commit import PreparedCommit
from arco.iceberg.wire import CommitViewRequest
from arco.ledger.claim import Claim


def view_definition(metadata: Metadata) -> ViewDefinition:
    """The definition of a view in its metadata."""
    version = msgspec.convert(_current_version(metadata), _Version)
    return ViewDefinition(
        queries=tuple(
            ViewQuery(sql=each.sql, dialect=each.dialect)
            for each in version.representations
            if each.type.lower() == "sql"  # other types are for the engines that wrote them
        ),
        default_catalog=version.catalog,
        default_namespace=version.namespace,
    )


class _Representation(msgspec.Struct):
    type: str
    sql: str = ""
    dialect: str = ""


class _Version(msgspec.Struct):
    representations: tuple[_Representation, ...]
    namespace: tuple[str, ...] = msgspec.field(name="default-namespace")
    catalog: str | None = msgspec.field(name="default-catalog", default=None)


class ViewCommitWork(ProjectedCommit):
    """A new version of a view."""

    def __init__(
        self, context: IcebergContext, name: FullName, change: Redefinition, caller: Caller
    ) -> None:
        super().__init__(context, name, CommitViewRequest(), caller, VIEW_ENGINE)
        self._requested = change

    def _prepare(
        self, base: LoadedMetadata, table_head: PointerHead, claim: Claim
    ) -> PreparedCommit | None:
        metadata = base.metadata
        old, schema = _current_version(metadata), current_schema(metadata)
        after = self._schema(metadata, schema)
        new = self._version(old)
        if after == schema and new == old:
            return None
        fresh: Object = {
            "schema-id": LAST_ADDED,
            "summary": SUMMARY,
            "timestamp-ms": self._context.runtime.clock.now_ms(),
        }
        self._request = CommitViewRequest(
            requirements=({"type": "assert-view-uuid", "uuid": metadata["view-uuid"]},),
            updates=(
                {"action": "add-schema", "schema": after},
                {"action": "add-view-version", "view-version": {**new, **fresh}},
                {"action": "set-current-view-version", "view-version-id": LAST_ADDED},
            ),
        )
        return super()._prepare(base, table_head, claim)

    def _version(self, old: Object) -> Object:
        change, new = self._requested, dict(old)
        if change.queries is not UNSET:
            new["representations"] = representations(change.queries)
        if change.default_namespace is not UNSET:
            new["default-namespace"] = [*change.default_namespace]
        if change.default_catalog is not UNSET:
            new.pop("default-catalog", None)
            if change.default_catalog is not None:
                new["default-catalog"] = change.default_catalog
        return new

    def _schema(self, metadata: Metadata, schema: Object) -> Object:
        """The schema with the requested columns; a column that stays keeps its id."""
        columns = self._requested.columns
        if columns is UNSET:
            return schema
        old_fields = {field["name"]: field for field in shape.objects(schema, "fields", "the view")}
        schemas = shape.objects(metadata, "schemas", "the view")
        last_id = max(index_schema(each).highest for each in schemas)

        def next_id() -> int:
            nonlocal last_id
            last_id += 1
            return last_id

        fields: list[Json] = []
        for column in columns:
            field, old = field_of(column), old_fields.get(column.name)
            if old is not None and spark_type(old["type"], column.name) == normalise(
                column.data_type
            ):
                fields.append({"id": old["id"], **field, "type": old["type"]})
            else:
                kind = with_ids(field["type"], next_id)
                fields.append({"id": next_id(), **field, "type": kind})
        after: Object = {**schema, "fields": fields}
        columns_of(after)  # refuses duplicates
        return after


def _current_version(metadata: Metadata) -> Object:
    """The current version of a view."""
    current = metadata.get("current-version-id")
    for version in shape.objects(metadata, "versions", "the view"):
        if version.get("version-id") == current:
            return version
    raise Invalid(f"the current version of the view is {current}, which its metadata does not list")
