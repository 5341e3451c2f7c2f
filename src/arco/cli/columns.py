"""What `arco column` does: change the columns of a table of a running Arco, and say what was done."""

from collections.abc import Mapping, Sequence

import msgspec

from arco.cli.output import print_document
from arco.cli.remote import Remote, path
from arco.cli.target import Target
from arco.core.errors import Invalid
from arco.core.json import Json


def add_columns(
    remote: Remote, table: Target, columns: Sequence[dict[str, Json]], *, as_json: bool
) -> None:
    """Add columns, all or none."""
    if not columns:
        raise Invalid('which column? Give it as "name type"')
    added = remote.change("POST", path(*table.url, "columns"), {"columns": columns})
    names = ", ".join(str(column["name"]) for column in columns)
    _tell(added, f"Added {names} to {table}.", as_json=as_json)


def change_column(
    remote: Remote, table: Target, column: str, wish: Mapping[str, Json], *, as_json: bool
) -> None:
    """Change what is not None of a column."""
    body: dict[str, Json] = {name: value for name, value in wish.items() if value is not None}
    if not body:
        raise Invalid(
            "nothing to change: give --rename, --type, --nullable, --not-null, --comment, --pii or "
            "--sensitivity"
        )
    for name in ("comment", "pii_type"):
        if body.get(name) == "":
            body[name] = None
    changed = remote.change("PATCH", path(*table.url, "columns", column), body)
    _tell(changed, f"Changed {column} of {table}.", as_json=as_json)


def drop_column(remote: Remote, table: Target, column: str, *, as_json: bool) -> None:
    """Drop a column."""
    remote.change("DELETE", path(*table.url, "columns", column))
    if as_json:
        print_document({"dropped": column, "table": str(table)})
    else:
        print(f"Dropped {column} of {table}.")


def _tell(document: bytes, sentence: str, *, as_json: bool) -> None:
    print(msgspec.json.format(document, indent=2).decode() if as_json else sentence)
