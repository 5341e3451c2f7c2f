"""Objects, versions and changes of the catalog as a person reads them."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from arco.cli.rendering import Cells, one_line, print_fields, print_rows
from arco.client.models import (
    ColumnInfo,
    ObjectChange,
    ObjectInfo,
    ObjectVersionInfo,
    TableInfo,
    ViewInfo,
)
from arco.core import json

_BOOKKEEPING = frozenset(
    {
        *("updated_at", "updated_by", "_moved", "schema_version", "last_field_id"),
        *("born", "projected"),
    }
)


def row_of(info: ObjectInfo) -> Cells:
    """One line of a list."""
    kind = (info.format or "", _type(info)) if isinstance(info, TableInfo) else ()
    described = (info.owner or "", moment(info.updated_at), info.comment or "")
    dropped = () if info.dropped_at is None else (moment(info.dropped_at), info.id)
    return (info.full_name, *kind, *described, *dropped)


def print_object(info: ObjectInfo) -> None:
    """Print everything about one object."""
    print_fields(_fields(info))
    if isinstance(info, TableInfo) and info.columns:
        print()
        headings = ("#", "COLUMN", "TYPE", "NULL", "PII", "SENSITIVITY", "COMMENT")
        print_rows(headings, [_column(at, each) for at, each in enumerate(info.columns, 1)])
    for query in info.representations if isinstance(info, ViewInfo) else ():
        print(f"\nquery in {one_line(query.dialect)}:")
        for line in query.sql.splitlines():
            print(f"  {one_line(line)}")


def rows_of_versions(versions: Sequence[ObjectVersionInfo]) -> list[Cells]:
    """Versions of one object, newest first, each with what it changed of the one before it."""
    rows: list[Cells] = []
    older = [*versions[1:], None]
    for version, before in zip(versions, older, strict=True):
        changed = "" if before is None else ", ".join(_differing(before, version))
        what = version.operation or "(no longer kept)"
        rows.append((str(version.number), moment(version.at), version.actor, what, changed))
    return rows


def row_of_change(change: ObjectChange) -> Cells:
    """A change between two points, with the old and the new value of each field."""
    kind = change.kind.lower()
    return (str(change.commit), change.change, kind, change.name, _changed(change))


def moment(at: datetime | None) -> str:
    """A time for people."""
    return "" if at is None else f"{at:%Y-%m-%dT%H:%M:%SZ}"


def _fields(info: ObjectInfo) -> Iterator[tuple[str, str]]:
    yield info.kind.lower(), info.full_name
    yield "id", info.id
    yield "comment", info.comment or ""
    yield "owner", info.owner or ""
    yield "tags", ", ".join(info.tags)
    for key, value in sorted(info.properties.items()):
        yield "property", f"{key}={value}"
    if isinstance(info, TableInfo):
        yield "format", info.format or ""
        yield "type", _type(info)
        yield "location", info.location or ""
    yield "created", f"{moment(info.created_at)} by {info.created_by}"
    yield "updated", f"{moment(info.updated_at)} by {info.updated_by}"
    yield "version", str(info.commit)


def _type(info: TableInfo) -> str:
    return "view" if info.kind == "VIEW" else (info.table_type or info.kind).lower()


def _column(at: int, column: ColumnInfo) -> Cells:
    return (
        str(at),
        column.name,
        column.data_type,
        "" if column.nullable else "not null",
        column.pii_type or "",
        column.sensitivity or "",
        column.comment or "",
    )


def _differing(before: ObjectVersionInfo, after: ObjectVersionInfo) -> list[str]:
    names = [
        name
        for name in {**before.fields, **after.fields}
        if name not in _BOOKKEEPING and before.fields.get(name) != after.fields.get(name)
    ]
    return [*names, *(["columns"] if before.columns != after.columns else [])]


def _changed(change: ObjectChange) -> str:
    if change.change != "updated":
        return ""
    names = [name for name in {**change.before, **change.after} if name not in _BOOKKEEPING]
    return "; ".join(
        f"{name}: {_value(change.before.get(name))} -> {_value(change.after.get(name))}"
        for name in names
    )


def _value(value: object) -> str:
    return json.encode(value).decode()
