"""The changes that a writer may request, given what it has just read of an object."""

from urllib.parse import quote

from tests.processes.journal import ChangeRequest, Document

CATALOG = "/api/v1/catalogs/default"
COMMON = "common"  # a schema that all writers put tables into
_SEPARATOR = "\x1f"


def schema_path(levels: list[str]) -> str:
    return f"{CATALOG}/schemas/{quote(_SEPARATOR.join(levels), safe='')}"


def table_path(table: Document) -> str:
    return f"{schema_path(table['schema'])}/tables/{table['name']}"


def create_schema(mark: str, parent: list[str]) -> ChangeRequest:
    body = {"name": mark, "comment": mark, "parent": parent}
    return ChangeRequest(mark, "create_schema", "POST", f"{CATALOG}/schemas", body)


def create_table(mark: str, schema: list[str], name: str | None = None) -> ChangeRequest:
    columns = [
        {"name": "id", "data_type": "bigint", "nullable": False},
        {"name": "email", "data_type": "string", "pii_type": "email"},
    ]
    body = {"name": name or mark, "comment": mark, "format": "PARQUET", "columns": columns}
    return ChangeRequest(mark, "create_table", "POST", f"{schema_path(schema)}/tables", body)


def rename_schema(mark: str, schema: Document) -> ChangeRequest:
    body = {"name": mark, "comment": mark}
    return _of(schema, mark, "update_schema", "PATCH", schema_path(schema["schema"]), body)


def drop_schema(mark: str, schema: Document, *, force: bool) -> ChangeRequest:
    path = schema_path(schema["schema"]) + ("?force=true" if force else "")
    return _of(schema, mark, "drop_schema", "DELETE", path, marked=False)


def rename_table(mark: str, table: Document) -> ChangeRequest:
    body = {"name": mark, "comment": mark}
    return _of(table, mark, "update_table", "PATCH", table_path(table), body)


def describe_table(mark: str, table: Document, **headers: str) -> ChangeRequest:
    path = table_path(table)
    return _of(table, mark, "update_table", "PATCH", path, {"comment": mark}, headers=headers)


def move_table(mark: str, table: Document, schema: list[str]) -> ChangeRequest:
    body = {"schema": schema, "comment": mark}
    return _of(table, mark, "update_table", "PATCH", table_path(table), body)


def drop_table(mark: str, table: Document) -> ChangeRequest:
    return _of(table, mark, "drop_table", "DELETE", table_path(table), marked=False)


def undrop(mark: str, thing: Document, *, renamed: bool) -> ChangeRequest:
    path = f"/api/v1/objects/{thing['id']}/undrop"
    body = {"name": mark} if renamed else {}
    return _of(thing, mark, "undrop", "POST", path, body, marked=renamed)


def add_column(mark: str, table: Document) -> ChangeRequest:
    body = {"name": mark, "data_type": "int"}
    return _of(table, mark, "add_column", "POST", f"{table_path(table)}/columns", body)


def change_column(mark: str, table: Document, column: str) -> ChangeRequest:
    path = f"{table_path(table)}/columns/{column}"
    body = {"name": mark, "data_type": "string", "nullable": True}
    return _of(table, mark, "update_column", "PATCH", path, body)


def drop_column(mark: str, table: Document, column: str) -> ChangeRequest:
    path = f"{table_path(table)}/columns/{column}"
    return _of(table, mark, "drop_column", "DELETE", path, marked=False)


def _of(
    thing: Document,
    mark: str,
    operation: str,
    method: str,
    path: str,
    body: Document | None = None,
    *,
    marked: bool = True,
    headers: dict[str, str] | None = None,
) -> ChangeRequest:
    return ChangeRequest(
        mark, operation, method, path, body, thing["id"], marked=marked, headers=headers or {}
    )
