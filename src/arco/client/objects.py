"""Catalogs, schemas, tables, views and their columns: create, read, change, drop, restore, look back.

All four types of objects share one class; what differs is which names they take, the type of their
documents, and a few operations that only tables or views have.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from arco.catalog.name import parse_dotted, print_dotted
from arco.client.models import (
    ApiDocument,
    CatalogInfo,
    ColumnDefinition,
    ColumnInfo,
    ManifestInfo,
    ObjectChange,
    ObjectInfo,
    ObjectVersionInfo,
    PartitionInfo,
    SchemaInfo,
    SchemaVersionInfo,
    TableHealthInfo,
    TableInfo,
    TableStatisticsInfo,
    ViewInfo,
    ViewRepresentation,
    decode,
)
from arco.client.object_name import (
    PARSERS,
    ObjectName,
    ObjectType,
    parse_parent_of_schemas,
    parse_parent_of_tables,
    parse_table,
)
from arco.client.transport import Params, Transport, advise, path
from arco.core import json
from arco.core.errors import Invalid, NotFound

if TYPE_CHECKING:
    from arco.flow.publish.wire import FilesPublished, FilesStaged, TableVersionFiles

I = TypeVar("I", bound=ObjectInfo)  # noqa: E741
D = TypeVar("D", bound=ApiDocument)

Name = str | ObjectName
NewColumn = ColumnDefinition | Mapping[str, object]
Text = str | UnsetType | None  # UNSET leaves it as it is, None clears it

_INFO: Mapping[str, type[ObjectInfo]] = {
    "CATALOG": CatalogInfo,
    "SCHEMA": SchemaInfo,
    "TABLE": TableInfo,
    "VIEW": ViewInfo,
}
_IN_SCHEMAS = frozenset({ObjectType.TABLE, ObjectType.VIEW})


class CatalogObjects(Generic[I]):
    """The objects of one type. Names are dotted; without a catalog they are in `default`."""

    def __init__(self, transport: Transport, object_type: ObjectType, info: type[I]) -> None:
        self.type = object_type
        self._transport = transport
        self._info = info

    def get(self, name: Name, *, as_of: str | None = None) -> I:
        """The object, now or as of a version number, a commit id or a time."""
        return self._read(self.parse(name).path, {"as_of": as_of}, self._info)

    def list(
        self,
        parent: Name | None = None,
        *,
        catalog: str | None = None,
        dropped: bool = False,
        as_of: str | None = None,
    ) -> Iterator[I]:
        """The objects right in the schema (or, of schemas, the catalog) `parent`.

        Without it: the schemas at the top of `catalog`, or all tables or views of it. `dropped` lists the
        objects that were dropped and can still be restored.
        """
        params = {"as_of": as_of, "dropped": _flag(dropped)}
        within = self._parent(parent, catalog)
        if self.type in _IN_SCHEMAS and within is not None and not within.schema:
            # All schemas as of one version, whatever is published meanwhile.
            head = self._read("/manifests/catalog", {"as_of": as_of}, ManifestInfo)
            return self._of_schemas(within, {**params, "as_of": str(head.number)})
        return self._children(within, params)

    def rename(self, name: Name, new_name: Name) -> I:
        """Rename an object; a table or view may move to another schema or catalog with it."""
        old, new = self.parse(name), self.parse(new_name)
        if new == old:
            raise Invalid(f"{old} is called so already")
        changes: dict[str, object] = {"name": new.name} if new.name != old.name else {}
        if self.type in _IN_SCHEMAS:
            if new.parent != old.parent:
                changes["schema"] = new.schema
            if new.catalog != old.catalog:
                changes["catalog"] = new.catalog
        elif self.type is ObjectType.SCHEMA and new.parent != old.parent:
            raise Invalid(
                f"a schema stays in {old.parent}, so its new name is "
                f"{print_dotted((*old.parent.parts, new.name))}, or another there"
            )
        return self._change("PATCH", old.path, changes)

    def update(
        self,
        name: Name,
        *,
        comment: Text = UNSET,
        owner: Text = UNSET,
        tags: Sequence[str] | UnsetType | None = UNSET,
        properties: Mapping[str, str | None] | UnsetType | None = UNSET,
        if_commit: int | None = None,
    ) -> I:
        """Change what is given; None clears it. Properties are merged; one with the value None is removed.

        With `if_commit`, the `commit` of the object as it was read, a change by another caller since then
        is `PreconditionFailed`.
        """
        changes = {"comment": comment, "owner": owner, "tags": tags, "properties": properties}
        return self._change("PATCH", self.parse(name).path, _given(changes), if_commit=if_commit)

    def drop(self, name: Name, *, force: bool = False, if_commit: int | None = None) -> None:
        """Drop an object; `force` drops a catalog or schema with all that it holds."""
        params = {"force": _flag(force)}
        self._transport.change("DELETE", self.parse(name).path, None, params, if_commit=if_commit)

    def undrop(
        self, name: Name | None = None, *, object_id: str | None = None, new_name: str | None = None
    ) -> I:
        """Restore the object that was dropped last under `name`, or the one with `object_id`.

        It comes back under its old name, or under `new_name` (its last part alone).
        """
        named = self._one_of(name, object_id)
        if isinstance(named, str):
            kind = get_object(self._transport, named, dropped=True).kind.lower()
            if kind not in self._kinds():
                raise Invalid(f"{named} is a {kind}: use `arco {kind} undrop`")
        dropped_id = named if isinstance(named, str) else self._dropped_last(named)
        body = {} if new_name is None else {"name": new_name}
        return self._change("POST", path("objects", dropped_id, "undrop"), body)

    def history(
        self, name: Name | None = None, *, object_id: str | None = None
    ) -> Iterator[ObjectVersionInfo]:
        """The versions of an object, newest first."""
        named = self._one_of(name, object_id)
        found_id = named if isinstance(named, str) else self.get(named).id
        return items(self._transport, path("objects", found_id, "history"), ObjectVersionInfo)

    def diff(
        self, name: Name | None = None, *, start: str, end: str | None = None
    ) -> Iterator[ObjectChange]:
        """Changes from `start` to `end` (now): of objects of this type, or of one and all that it holds."""
        subtree = None if name is None else self._subtree(self.parse(name), start, end)
        changes = diff(self._transport, start, end)
        if subtree is not None:
            return (change for change in changes if subtree.contains(change))
        return (change for change in changes if change.kind.lower() in self._kinds())

    def parse(self, name: Name) -> ObjectName:
        """The parts of a dotted name."""
        return name if isinstance(name, ObjectName) else PARSERS[self.type](name, None)

    def _kinds(self) -> frozenset[str]:
        """Tables and views share their names, so `tables` works for both."""
        return frozenset({"table", "view"} if self.type is ObjectType.TABLE else {self.type.value})

    def _parent(self, parent: Name | None, catalog: str | None) -> ObjectName | None:
        if isinstance(parent, ObjectName):
            return parent
        if self.type is ObjectType.CATALOG:
            return None
        if self.type is ObjectType.SCHEMA:
            return parse_parent_of_schemas(parent, catalog)
        return parse_parent_of_tables(parent, catalog)

    def _children(self, parent: ObjectName | None, params: Params) -> Iterator[I]:
        if parent is None or self.type is ObjectType.CATALOG:
            return items(self._transport, "/catalogs", self._info, params)
        if self.type is ObjectType.SCHEMA:
            return schemas_below(self._transport, parent, params, self._info)
        listed = ObjectName(parent.catalog, parent.schema, "x", self.type is ObjectType.VIEW)
        return items(self._transport, listed.collection, self._info, params)

    def _of_schemas(self, parent: ObjectName, params: Params) -> Iterator[I]:
        existing = {**params, "dropped": None}
        for schema in schemas_below(self._transport, parent, existing, SchemaInfo):
            below = ObjectName(parent.catalog, schema.schema)
            yield from self._children(below, params)
            yield from self._of_schemas(below, params)

    def _dropped_last(self, name: ObjectName) -> str:
        parent = None if self.type is ObjectType.CATALOG else name.parent
        dropped = [
            each for each in self._children(parent, {"dropped": "true"}) if each.name == name.name
        ]
        if not dropped:
            from shlex import quote

            within = "" if parent is None else f" {quote(str(parent))}"
            raise advise(
                NotFound(f"no {self.type} {name} was dropped, or it was too long ago"),
                f"`arco {self.type} list{within} --dropped` lists what can come back.",
            )
        return max(dropped, key=lambda each: each.commit).id

    def _subtree(self, name: ObjectName, start: str, end: str | None) -> "_Subtree":
        """The object by its names at both points: it may have been renamed between them."""
        other: str | None = start
        try:
            info = self.get(name, as_of=end)
        except NotFound:
            info, other = self.get(name, as_of=start), end
        names = {parse_dotted(info.full_name)}
        try:
            before = get_object(self._transport, info.id, as_of=other)
        except NotFound:
            return _Subtree(info.id, names)  # it exists at one of the points only
        return _Subtree(info.id, names | {parse_dotted(before.full_name)})

    def _one_of(self, name: Name | None, object_id: str | None) -> ObjectName | str:
        if name is not None and object_id is None:
            return self.parse(name)
        if object_id is not None and name is None:
            return object_id
        raise Invalid(f"which {self.type}? Give its name or its --id, and not both")

    def _create(self, name: Name, body: Mapping[str, object]) -> I:
        parsed = self.parse(name)
        return self._change("POST", parsed.collection, {"name": parsed.name, **body})

    def _change(self, method: str, where: str, body: object, *, if_commit: int | None = None) -> I:
        raw = self._transport.change(method, where, body, if_commit=if_commit)
        return decode(raw, self._info)

    def _read(self, where: str, params: Params, kind: type[D]) -> D:
        return decode(self._transport.get(where, params), kind)


class CatalogsApi(CatalogObjects[CatalogInfo]):
    """Catalogs."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport, ObjectType.CATALOG, CatalogInfo)

    def create(
        self,
        name: Name,
        *,
        comment: str | None = None,
        owner: str | None = None,
        tags: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
    ) -> CatalogInfo:
        """Create a catalog."""
        return self._create(name, _described(comment, owner, tags, properties))


class SchemasApi(CatalogObjects[SchemaInfo]):
    """Schemas, which may lie in schemas."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport, ObjectType.SCHEMA, SchemaInfo)

    def create(
        self,
        name: Name,
        *,
        comment: str | None = None,
        owner: str | None = None,
        tags: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
    ) -> SchemaInfo:
        """Create a schema; the schemas that it lies in must exist."""
        parsed = self.parse(name)
        body = _described(comment, owner, tags, properties)
        return self._create(parsed, {"parent": parsed.schema[:-1], **body})


class TablesApi(CatalogObjects[TableInfo]):
    """Tables. Reads, `undrop`, `history` and `diff` work for views too, as they share their names."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport, ObjectType.TABLE, TableInfo)

    def create(
        self,
        name: Name,
        *,
        format: str,  # noqa: A002 - as the API calls it
        columns: Sequence[NewColumn] = (),
        location: str | None = None,
        comment: str | None = None,
        owner: str | None = None,
        tags: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
    ) -> TableInfo:
        """Create a table in the format ICEBERG, PARQUET, DELTA, CSV or JSON.

        Without a location Arco chooses one and owns its files.
        """
        body = {"format": format.upper(), "location": location, "columns": columns}
        return self._create(name, {**body, **_described(comment, owner, tags, properties)})

    def schema_history(self, name: Name) -> Iterator[SchemaVersionInfo]:
        """The versions of a table's columns, newest first."""
        return items(self._transport, f"{self.parse(name).path}/schema-history", SchemaVersionInfo)

    def partitions(
        self, name: Name, *, status: str | None = None, fresh: bool = False
    ) -> Iterator[PartitionInfo]:
        """The partitions of a table, perhaps those with a status: PENDING, RUNNING, COMPLETE or FAILED."""
        params = {"status": status, "freshness": freshness(fresh)}
        return items(self._transport, self._facts(name, "partitions"), PartitionInfo, params)

    def health(self, name: Name, *, fresh: bool = False) -> TableHealthInfo:
        """The latest result of each data quality check of a table."""
        params = {"freshness": freshness(fresh)}
        return self._read(self._facts(name, "health"), params, TableHealthInfo)

    def statistics(self, name: Name, *, fresh: bool = False) -> TableStatisticsInfo:
        """Row counts and sizes of a table and its columns."""
        params = {"freshness": freshness(fresh)}
        return self._read(self._facts(name, "statistics"), params, TableStatisticsInfo)

    def files(self, name: Name, *, version: int | None = None) -> "TableVersionFiles":
        """The files of a managed Parquet table, now or of an earlier version."""
        return self.files_of(self.get(name).id, version=version)

    def files_of(self, table_id: str, *, version: int | None = None) -> "TableVersionFiles":
        """The files of the managed Parquet table with this id."""
        from arco.flow.publish.wire import TableVersionFiles

        params = {"version": None if version is None else str(version)}
        return json.decode(
            self._transport.get(path("tables", table_id, "files"), params), TableVersionFiles
        )

    def publish_files(self, staged: "FilesStaged") -> "FilesPublished":
        """Publish data files that an attempt of a task has written to a managed Parquet table."""
        from arco.flow.publish.wire import FilesPublished

        where = path("tables", staged.table_id, "versions")
        return json.decode(self._transport.change("POST", where, staged), FilesPublished)

    def _facts(self, name: Name, what: str) -> str:
        return path("tables", self.get(name).id, what)


class ViewsApi(CatalogObjects[ViewInfo]):
    """Views."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport, ObjectType.VIEW, ViewInfo)

    def create(
        self,
        name: Name,
        *,
        columns: Sequence[NewColumn],
        sql: str | None = None,
        dialect: str | None = None,
        representations: Sequence[ViewRepresentation] = (),
        default_catalog: str | None = None,
        default_namespace: Sequence[str] | None = None,
        comment: str | None = None,
        owner: str | None = None,
        tags: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
    ) -> ViewInfo:
        """Create a view out of its query, in one dialect or several, and the columns of its result."""
        body: dict[str, object] = {
            "sql": sql,
            "dialect": dialect,
            "columns": columns,
            "representations": representations,
            "default_catalog": default_catalog,
            "default_namespace": default_namespace,
        }
        given = {key: value for key, value in body.items() if value not in (None, ())}
        return self._create(name, {**given, **_described(comment, owner, tags, properties)})

    def replace_query(
        self,
        name: Name,
        sql: str,
        *,
        columns: Sequence[NewColumn] | None = None,
        dialect: str | None = None,
    ) -> ViewInfo:
        """Replace the query of a view, and the columns of its result if they are given."""
        body = {"sql": sql, "columns": columns, "dialect": dialect}
        changes = {key: value for key, value in body.items() if value is not None}
        return self._change("PATCH", self.parse(name).path, changes)


class ColumnsApi:
    """The columns of tables."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def add(self, table: Name, columns: Sequence[NewColumn]) -> tuple[ColumnInfo, ...]:
        """Add columns to a table, all in one change."""
        where = f"{_table(table).path}/columns"
        raw = self._transport.change("POST", where, {"columns": columns})
        return json.decode(raw, _AddedColumns).columns

    def update(
        self,
        table: Name,
        column: str,
        *,
        name: str | UnsetType = UNSET,
        data_type: str | UnsetType = UNSET,
        nullable: bool | UnsetType = UNSET,
        comment: Text = UNSET,
        default_value: Text = UNSET,
        pii_type: Text = UNSET,
        sensitivity: Text = UNSET,
        position: int | UnsetType = UNSET,
    ) -> ColumnInfo:
        """Change what is given of a column; None clears it."""
        changes = {
            "name": name,
            "data_type": data_type,
            "nullable": nullable,
            "comment": comment,
            "default_value": default_value,
            "pii_type": pii_type,
            "sensitivity": sensitivity,
            "position": position,
        }
        where = f"{_table(table).path}{path('columns', column)}"
        return decode(self._transport.change("PATCH", where, _given(changes)), ColumnInfo)

    def drop(self, table: Name, column: str) -> None:
        """Drop a column."""
        self._transport.change("DELETE", f"{_table(table).path}{path('columns', column)}")


class _AddedColumns(msgspec.Struct):
    columns: tuple[ColumnInfo, ...]


class _Subtree:
    """An object and all that lies in it."""

    def __init__(self, object_id: str, names: set[tuple[str, ...]]) -> None:
        self._id = object_id
        self._names = names

    def contains(self, change: ObjectChange) -> bool:
        """Whether a change is about the object or something in it."""
        parts = parse_dotted(change.name)
        return change.id == self._id or any(parts[: len(name)] == name for name in self._names)


def get_object(
    transport: Transport, object_id: str, *, as_of: str | None = None, dropped: bool = False
) -> ObjectInfo:
    """The object with an id, whatever its type; `dropped` finds it also if it was dropped."""
    params = {"as_of": as_of, "dropped": _flag(dropped)}
    raw = transport.get(path("objects", object_id), params)
    return decode(raw, _INFO.get(json.decode(raw, ObjectInfo).kind, ObjectInfo))


def diff(transport: Transport, start: str, end: str | None) -> Iterator[ObjectChange]:
    """All objects that changed from `start` to `end`, or to now."""
    return items(transport, "/diff", ObjectChange, {"from": start, "to": end})


def schemas_below(
    transport: Transport, parent: ObjectName, params: Params, info: type[D]
) -> Iterator[D]:
    """The schemas right in a catalog or schema."""
    levels = {"parent": parent.levels} if parent.schema else {}
    return items(transport, path("catalogs", parent.catalog, "schemas"), info, {**params, **levels})


def items(
    transport: Transport, where: str, kind: type[D], params: Params | None = None
) -> Iterator[D]:
    """The items of a list, read page by page as they are needed."""
    for page in transport.pages(where, params):
        yield from (decode(each, kind) for each in page)


def freshness(fresh: bool) -> str | None:  # noqa: FBT001
    """The parameter that adds what was acknowledged and is not compacted yet."""
    return "fresh" if fresh else None


def _table(name: Name) -> ObjectName:
    return name if isinstance(name, ObjectName) else parse_table(name)


def _flag(value: bool) -> str | None:  # noqa: FBT001
    return "true" if value else None


def _given(changes: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in changes.items() if value is not UNSET}


def _described(
    comment: str | None,
    owner: str | None,
    tags: Sequence[str],
    properties: Mapping[str, str] | None,
) -> dict[str, object]:
    fields = {"comment": comment, "owner": owner, "tags": tags, "properties": properties}
    return {name: value for name, value in fields.items() if value}
