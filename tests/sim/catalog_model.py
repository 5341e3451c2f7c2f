"""A model of the catalog in plain dictionaries, written apart from the code that it judges.

It knows what each request comes to in a state, or why it is refused, and nothing of commits, files, leases
or processes. The auditor lets it decide every request again, in the order of the commits.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import UNSET

from arco.catalog import ddl

from . import model_columns
from .model_rows import Refused, Row, Rows, amended, described, lived, named

NOWHERE = "00000000-0000-7000-8000-000000000000"  # an id for what is only tried


class Model:
    """The state of a catalog: its rows by table and key, each with the commit that last wrote it."""

    def __init__(self, retention: timedelta) -> None:
        self.retention = retention
        self.catalogs: Rows = {}
        self.schemas: Rows = {}
        self.tables: Rows = {}  # by schema and table, as the files have it
        self.columns: Rows = {}
        self.schema_versions: Rows = {}
        self.objects: Rows = {}
        self._at = datetime.min.replace(tzinfo=UTC)
        self._actor = ""
        self._new_id = NOWHERE
        self._writes: list[tuple[Rows, tuple[Any, ...], Row | None]] = []

    def carry_out(
        self, request: ddl.Ddl, *, actor: str, at: datetime, new_id: str, number: int
    ) -> Row:
        """Change the state; the object as it is then. `Refused` if the request cannot be done."""
        changed = self._decide(request, actor, at, new_id)
        for rows, key, row in self._writes:
            if row is None:
                del rows[key]
            else:
                rows[key] = {**row, "_commit": number}
        return changed

    def verdict(self, request: ddl.Ddl, *, actor: str, at: datetime) -> str | None:
        """The code with which the request is refused in this state, None if it is not."""
        try:
            self._decide(request, actor, at, NOWHERE)
        except Refused as refused:
            return refused.code
        return None

    def state(self) -> dict[tuple[str, tuple[Any, ...]], Row]:
        """Every row, dropped ones too."""
        return {
            (name, key): row
            for name in ("catalogs", "schemas", "tables", "columns", "schema_versions", "objects")
            for key, row in getattr(self, name).items()
        }

    def live(self) -> list[tuple[str, str, int]]:
        """What a reader sees: the dotted name, the id and the commit of all that is there."""
        seen = []
        for row in self.catalogs.values():
            if not row.get("dropped_at"):
                seen.append((row["name"], row["catalog_id"], row["_commit"]))
        for row in self.schemas.values():
            if self._is_live(row):
                seen.append((self._path_of(row), row["schema_id"], row["_commit"]))
        for row in self.tables.values():
            if self._is_live(row):
                schema_path = self._path_of(self.schemas[row["schema_id"],])
                seen.append((f"{schema_path}.{row['name']}", row["table_id"], row["_commit"]))
                for column in self.live_columns(row["table_id"]):
                    name = f"{schema_path}.{row['name']}:{column['position']}:{column['name']}"
                    seen.append((name, column["column_id"], column["_commit"]))
        return sorted(seen)

    def forget(self, forgotten_ids: set[str]) -> None:
        """Leave out objects, or columns, by their ids, and all that belongs to them."""
        forgotten_ids = set(forgotten_ids)
        forgotten_ids |= {
            row["schema_id"] for row in self.schemas.values() if row["catalog_id"] in forgotten_ids
        }
        while True:
            below = {
                r["schema_id"] for r in self.schemas.values() if r.get("parent_id") in forgotten_ids
            }
            if below <= forgotten_ids:
                break
            forgotten_ids |= below
        forgotten_ids |= {
            row["table_id"] for row in self.tables.values() if row["schema_id"] in forgotten_ids
        }
        _sift(self.catalogs, lambda row: row["catalog_id"] in forgotten_ids)
        _sift(self.schemas, lambda row: row["schema_id"] in forgotten_ids)
        _sift(self.tables, lambda row: row["table_id"] in forgotten_ids)
        _sift(
            self.columns,
            lambda row: row["table_id"] in forgotten_ids or row["column_id"] in forgotten_ids,
        )
        _sift(self.schema_versions, lambda row: row["table_id"] in forgotten_ids)
        _sift(self.objects, lambda row: row["id"] in forgotten_ids)

    def dropped_at(self, object_id: str) -> datetime | None:
        """When an object, or a column, was dropped itself."""
        for rows, name in (
            (self.catalogs, "catalog_id"),
            (self.schemas, "schema_id"),
            (self.tables, "table_id"),
            (self.columns, "column_id"),
        ):
            for row in rows.values():
                if row[name] == object_id:
                    dropped: datetime | None = row.get("dropped_at")
                    return dropped
        return None

    # deciding

    def _decide(self, request: ddl.Ddl, actor: str, at: datetime, new_id: str) -> Row:
        self._actor, self._at, self._new_id, self._writes = actor, at, new_id, []
        match request:
            case ddl.CreateCatalog():
                return self._create_catalog(request)
            case ddl.UpdateCatalog() | ddl.DropCatalog():
                return self._change_catalog(request)
            case ddl.CreateSchema():
                return self._create_schema(request)
            case ddl.UpdateSchema() | ddl.DropSchema():
                return self._change_schema(request)
            case ddl.CreateTable():
                return self._create_table(request)
            case ddl.UpdateTable():
                return self._update_table(request)
            case ddl.DropTable():
                return self._drop_table(request)
            case ddl.AddColumns() | ddl.UpdateColumn() | ddl.DropColumn():
                return self._change_columns(request)
            case ddl.Undrop():
                return self._undrop(request)
            case _:
                raise NotImplementedError(f"the model knows no {type(request).__name__}")

    def _create_catalog(self, request: ddl.CreateCatalog) -> Row:
        self._refuse_taken(self._catalog_named(named(request.name)))
        row = {"catalog_id": self._new_id, "name": request.name, **self._made(request)}
        self._place(self._new_id, "CATALOG", None, "")
        return self._write(self.catalogs, (self._new_id,), row)

    def _change_catalog(self, request: ddl.UpdateCatalog | ddl.DropCatalog) -> Row:
        old = self._expected(self._catalog(request.target.catalog), request)
        row = {**old, **self._touched()}
        if isinstance(request, ddl.DropCatalog):
            below = (each for each in self.schemas.values() if not each.get("parent_id"))
            inside = [
                each
                for each in below
                if each["catalog_id"] == old["catalog_id"] and not each.get("dropped_at")
            ]
            if inside and not request.force:
                raise Refused("not_empty")
            row["dropped_at"] = self._at
        else:
            row |= amended(request, old)
            if request.name is not UNSET and request.name != old["name"]:
                self._refuse_taken(self._catalog_named(named(request.name)))
                row["name"] = request.name
        return self._write(self.catalogs, (old["catalog_id"],), row)

    def _create_schema(self, request: ddl.CreateSchema) -> Row:
        name = named(request.name)
        catalog = self._catalog(request.catalog)["catalog_id"]
        parent = None
        if request.parent:
            parent = self._schema(ddl.SchemaName(request.catalog, request.parent))["schema_id"]
        self._refuse_taken(self._schema_in(catalog, parent, name))
        row = {
            "schema_id": self._new_id,
            "catalog_id": catalog,
            "parent_id": parent,
            "name": name,
            "path": [*request.parent, name],
            "visibility": "all",
            **self._made(request),
        }
        self._place(self._new_id, "SCHEMA", parent or catalog, "")
        return self._write(self.schemas, (self._new_id,), row)

    def _change_schema(self, request: ddl.UpdateSchema | ddl.DropSchema) -> Row:
        old = self._expected(self._schema(request.target), request)
        row = {**old, **self._touched()}
        if isinstance(request, ddl.DropSchema):
            if not request.force and self._holds_something(old["schema_id"]):
                raise Refused("not_empty")
            row["dropped_at"] = self._at
        else:
            row |= amended(request, old)
            if request.name is not UNSET and request.name != old["name"]:
                name = named(request.name)
                self._refuse_taken(self._schema_in(old["catalog_id"], old.get("parent_id"), name))
                row |= {"name": name, "path": [*old["path"][:-1], name]}
                self._move_below(row)
        return self._write(self.schemas, (old["schema_id"],), row)

    def _create_table(self, request: ddl.CreateTable) -> Row:
        name = named(request.name)
        schema = self._schema(request.schema)
        columns = model_columns.fresh(
            self._new_id, request.columns, first_field=1, at=0, lifetime=self._lifetime()
        )
        model_columns.refuse_doubles(columns)
        self._refuse_taken(self._table_in(schema["schema_id"], name))
        row = {
            "table_id": self._new_id,
            "catalog_id": schema["catalog_id"],
            "schema_id": schema["schema_id"],
            "name": name,
            "kind": "TABLE",
            "format": request.format.value,
            "table_type": "MANAGED",
            "location": f"warehouse/{self._new_id}/",
            "schema_version": 1,
            "last_field_id": len(columns),
            "pii_columns": model_columns.personal(columns),
            **self._made(request),
        }
        self._place(self._new_id, "TABLE", schema["schema_id"], schema["schema_id"])
        for column in columns:
            self._write(self.columns, (self._new_id, column["column_id"]), column)
        self._write_version(row, columns)
        return self._write(self.tables, (schema["schema_id"], self._new_id), row)

    def _update_table(self, request: ddl.UpdateTable) -> Row:
        old = self._expected(self._table(request.target), request)
        row = {**old, **self._touched(), **amended(request, old)}
        if request.name is not UNSET:
            row["name"] = named(request.name)
        if request.schema is not UNSET or request.catalog is not UNSET:
            catalog = request.target.catalog if request.catalog is UNSET else request.catalog
            path = request.target.schema if request.schema is UNSET else request.schema
            schema = self._schema(ddl.SchemaName(catalog, path))
            row |= {"schema_id": schema["schema_id"], "catalog_id": schema["catalog_id"]}
        if (row["schema_id"], row["name"]) != (old["schema_id"], old["name"]):
            self._refuse_taken(self._table_in(row["schema_id"], row["name"]))
        if row["schema_id"] != old["schema_id"]:
            self._writes.append((self.tables, (old["schema_id"], old["table_id"]), None))
            self._place(row["table_id"], "TABLE", row["schema_id"], row["schema_id"])
        return self._write(self.tables, (row["schema_id"], row["table_id"]), row)

    def _drop_table(self, request: ddl.DropTable) -> Row:
        old = self._expected(self._table(request.target), request)
        row = {**old, **self._touched(), "dropped_at": self._at}
        return self._write(self.tables, (old["schema_id"], old["table_id"]), row)

    def _change_columns(self, request: ddl.AddColumns | ddl.UpdateColumn | ddl.DropColumn) -> Row:
        table = self._expected(self._table(request.target), request)
        before = self.live_columns(table["table_id"])
        row = {**table, **self._touched()}
        after, last_field = model_columns.changed(table, before, request, self._lifetime())
        dropped_columns = [each for each in after if each.get("dropped_at")]
        after = [each for each in after if not each.get("dropped_at")]
        for position, column in enumerate(after):
            column["position"] = position
        if [
            *after,
            *dropped_columns,
        ] == before:  # nothing has changed, so there is no other version
            return self._write(self.tables, (table["schema_id"], table["table_id"]), row)
        model_columns.refuse_doubles(after)
        same = {column["column_id"]: column for column in before}
        for column in (*after, *dropped_columns):
            if same.get(column["column_id"]) != column:
                self._write(self.columns, (table["table_id"], column["column_id"]), column)
        row |= {
            "schema_version": table["schema_version"] + 1,
            "last_field_id": last_field,
            "pii_columns": model_columns.personal(after),
        }
        self._write_version(row, after)
        return self._write(self.tables, (table["schema_id"], table["table_id"]), row)

    def _undrop(self, request: ddl.Undrop) -> Row:
        kind, old = self._by_id(request.id)
        self._expected(old, request)
        container = self._container(old)
        if container is not None and not self._is_live(container):
            raise Refused("conflict")
        if not old.get("dropped_at"):
            raise Refused("already_exists")
        if old["dropped_at"] < self._at - self.retention:
            raise Refused("not_found")
        name = old["name"] if request.name is None else named(request.name)
        row = {**old, **self._touched(), "name": name}
        del row["dropped_at"]
        if kind == "CATALOG":
            self._refuse_taken(self._catalog_named(name))
            return self._write(self.catalogs, (old["catalog_id"],), row)
        if kind == "SCHEMA":
            self._refuse_taken(self._schema_in(old["catalog_id"], old.get("parent_id"), name))
            parents = [] if container is None or "path" not in container else container["path"]
            row["path"] = [*parents, name]
            if row["path"] != old["path"]:
                self._move_below(row)
            return self._write(self.schemas, (old["schema_id"],), row)
        self._refuse_taken(self._table_in(old["schema_id"], name))
        return self._write(self.tables, (old["schema_id"], old["table_id"]), row)

    # looking

    def _catalog_named(self, name: str) -> Row | None:
        return _only(r for r in self.catalogs.values() if r["name"] == name and _is_undropped(r))

    def _schema_in(self, catalog: str, parent: str | None, name: str) -> Row | None:
        place = (catalog, parent, name)
        return _only(
            row
            for row in self.schemas.values()
            if (row["catalog_id"], row.get("parent_id"), row["name"]) == place
            and _is_undropped(row)
        )

    def _table_in(self, schema: str, name: str) -> Row | None:
        return _only(
            row
            for row in self.tables.values()
            if (row["schema_id"], row["name"]) == (schema, name) and _is_undropped(row)
        )

    def _catalog(self, name: str) -> Row:
        return _existing(self._catalog_named(name))

    def _schema(self, name: ddl.SchemaName) -> Row:
        catalog = self._catalog(name.catalog)["catalog_id"]
        schema: Row | None = None
        for level in name.path:
            parent = None if schema is None else schema["schema_id"]
            schema = _existing(self._schema_in(catalog, parent, level))
        return _existing(schema)

    def _table(self, name: ddl.TableName) -> Row:
        schema = self._schema(ddl.SchemaName(name.catalog, name.schema))
        return _existing(self._table_in(schema["schema_id"], name.table))

    def live_columns(self, table_id: str) -> list[Row]:
        """The columns of a table, by position."""
        mine = [row for (table, _), row in self.columns.items() if table == table_id]
        return sorted((row for row in mine if _is_undropped(row)), key=lambda row: row["position"])

    def _by_id(self, object_id: str) -> tuple[str, Row]:
        place = _existing(self.objects.get((object_id,)))
        rows = {"CATALOG": self.catalogs, "SCHEMA": self.schemas, "TABLE": self.tables}
        key = (place["bucket_key"], object_id) if place["kind"] == "TABLE" else (object_id,)
        return place["kind"], _existing(rows[place["kind"]].get(key))

    def _container(self, row: Row) -> Row | None:
        if "table_id" in row:
            return self.schemas.get((row["schema_id"],))
        if "schema_id" not in row:
            return None
        if row.get("parent_id"):
            return self.schemas.get((row["parent_id"],))
        return self.catalogs.get((row["catalog_id"],))

    def _is_live(self, row: Row) -> bool:
        container: Row | None = row
        while container is not None:
            if not _is_undropped(container):
                return False
            row, container = container, self._container(container)
        return "schema_id" not in row

    def _holds_something(self, schema_id: str) -> bool:
        schemas = (r for r in self.schemas.values() if r.get("parent_id") == schema_id)
        tables = (r for r in self.tables.values() if r["schema_id"] == schema_id)
        return any(_is_undropped(row) for row in (*schemas, *tables))

    def _path_of(self, schema: Row) -> str:
        return ".".join([self.catalogs[schema["catalog_id"],]["name"], *schema["path"]])

    # writing

    def _write(self, rows: Rows, key: tuple[Any, ...], row: Row) -> Row:
        self._writes.append((rows, key, row))
        return row

    def _write_version(self, table: Row, columns: list[Row]) -> None:
        version = {
            "table_id": table["table_id"],
            "version": table["schema_version"],
            "columns": model_columns.recorded(columns),
            "changed_at": self._at,
            "changed_by": self._actor,
        }
        key = (table["table_id"], table["schema_version"])
        self._write(self.schema_versions, key, version)

    def _place(self, object_id: str, kind: str, parent: str | None, bucket_key: str) -> None:
        row = {"id": object_id, "kind": kind, "parent_id": parent, "bucket_key": bucket_key}
        self._write(self.objects, (object_id,), row)

    def _move_below(self, schema: Row) -> None:
        for key, row in self.schemas.items():
            if row.get("parent_id") == schema["schema_id"]:
                moved = {**row, "path": [*schema["path"], row["name"]]}
                self._write(self.schemas, key, moved)
                self._move_below(moved)

    def _made(self, request: ddl.Description) -> Row:
        return {**described(request, self._actor), **self._lifetime()}

    def _lifetime(self) -> Row:
        return lived(self._actor, self._at)

    def _touched(self) -> Row:
        return {"updated_at": self._at, "updated_by": self._actor}

    @staticmethod
    def _expected(row: Row, request: ddl.Request) -> Row:
        if request.expected is not None and request.expected != row["_commit"]:
            raise Refused("precondition_failed")
        return row

    @staticmethod
    def _refuse_taken(row: Row | None) -> None:
        if row is not None:
            raise Refused("already_exists")


def _is_undropped(row: Row) -> bool:
    return not row.get("dropped_at")


def _only(rows: Iterator[Row]) -> Row | None:
    matches = list(rows)
    if len(matches) > 1:
        raise AssertionError(f"two rows at one place: {matches}")
    return matches[0] if matches else None


def _existing(row: Row | None) -> Row:
    if row is None:
        raise Refused("not_found")
    return row


def _sift(rows: Rows, leaves: Callable[[Row], bool]) -> None:
    for key in [key for key, row in rows.items() if leaves(row)]:
        del rows[key]
