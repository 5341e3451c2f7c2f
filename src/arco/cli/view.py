"""How objects, versions and changes look to people."""

from collections.abc import Iterator, Sequence

from arco.cli.listing import Cells, one_line, print_fields, print_rows
from arco.cli.things import Change, Column, Thing, Version, moment
from arco.core import json

_BOOKKEEPING = frozenset(
    {
        *("updated_at", "updated_by", "_moved", "schema_version", "last_field_id"),
        *("born", "projected"),
    }
)


def row_of(thing: Thing) -> Cells:
    """One line of a list."""
    kind = () if thing.kind in {"CATALOG", "SCHEMA"} else (thing.format or "", _type(thing))
    said = (thing.owner or "", moment(thing.updated_at), thing.comment or "")
    gone = () if thing.dropped_at is None else (moment(thing.dropped_at), thing.id)
    return (thing.full_name, *kind, *said, *gone)


def print_thing(thing: Thing) -> None:
    """Everything about one object."""
    print_fields(_fields(thing))
    if thing.columns:
        print()
        headings = ("#", "COLUMN", "TYPE", "NULL", "PII", "SENSITIVITY", "COMMENT")
        print_rows(headings, [[_column(at, each) for at, each in enumerate(thing.columns, 1)]])
    for query in thing.representations:
        print(f"\nquery in {one_line(query.dialect)}:")
        for line in query.sql.splitlines():
            print(f"  {one_line(line)}")


def rows_of_versions(versions: Sequence[Version]) -> list[Cells]:
    """Versions of one object, newest first, each with what it changed of the one before it."""
    rows: list[Cells] = []
    older = [*versions[1:], None]
    for version, before in zip(versions, older, strict=True):
        changed = "" if before is None else ", ".join(_differing(before, version))
        what = version.operation or "(no longer kept)"
        rows.append((str(version.number), moment(version.at), version.actor, what, changed))
    return rows


def rows_of_changes(changes: Sequence[Change]) -> list[Cells]:
    """Changes between two points, with the old and the new value of what was updated."""
    return [
        (str(each.commit), each.change, each.kind.lower(), each.name, _changed(each))
        for each in changes
    ]


def _fields(thing: Thing) -> Iterator[tuple[str, str]]:
    yield thing.kind.lower(), thing.full_name
    yield "id", thing.id
    yield "comment", thing.comment or ""
    yield "owner", thing.owner or ""
    yield "tags", ", ".join(thing.tags)
    for key, value in sorted(thing.properties.items()):
        yield "property", f"{key}={value}"
    yield "format", thing.format or ""
    yield "type", _type(thing)
    yield "location", thing.location or ""
    yield "created", f"{moment(thing.created_at)} by {thing.created_by}"
    yield "updated", f"{moment(thing.updated_at)} by {thing.updated_by}"
    yield "version", str(thing.commit)


def _type(thing: Thing) -> str:
    if thing.kind == "VIEW":
        return "view"
    return (thing.table_type or thing.kind).lower() if thing.kind == "TABLE" else ""


def _column(at: int, column: Column) -> Cells:
    return (
        str(at),
        column.name,
        column.data_type,
        "" if column.nullable else "not null",
        column.pii_type or "",
        column.sensitivity or "",
        column.comment or "",
    )


def _differing(before: Version, after: Version) -> list[str]:
    found = [
        name
        for name in {**before.fields, **after.fields}
        if name not in _BOOKKEEPING and before.fields.get(name) != after.fields.get(name)
    ]
    return [*found, *(["columns"] if before.columns != after.columns else [])]


def _changed(change: Change) -> str:
    if change.change != "updated":
        return ""
    names = [name for name in {**change.before, **change.after} if name not in _BOOKKEEPING]
    return "; ".join(
        f"{name}: {_value(change.before.get(name))} -> {_value(change.after.get(name))}"
        for name in names
    )


def _value(value: object) -> str:
    return json.encode(value).decode()
