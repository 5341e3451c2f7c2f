"""`arco column`: the columns of a table on a running server, and columns as they are typed in flags.

A column is typed as "name type", with "not null" behind it; a name with blanks stands in quotes.
"""

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from arco.cli.flags import CONFIG, AsJson, ColumnName, InCatalog, Server, TableName
from arco.core import json as documents
from arco.core.errors import Invalid
from arco.core.json import Json

_EXAMPLES = """\
Examples:
  arco column add sales.orders "amount decimal(10,2)" "at timestamp not null"
  arco column change sales.orders amount --type "decimal(12,2)"
  arco column change sales.orders amount --comment "without tax" --not-null
  arco column change sales.orders amount --rename total
  arco column change crm.people email --pii EMAIL --sensitivity confidential
  arco column drop sales.orders total

`arco table show` lists the columns of a table, `arco table history` its changes."""

_SERVER = Server()
_SPEC = re.compile(
    r"""\s*(?:"((?:[^"]|"")+)"|`((?:[^`]|``)+)`|([^\s"`]\S*))\s+(\S.*?)(\s+not\s+null)?\s*""",
    re.IGNORECASE | re.DOTALL,
)

Spec = Annotated[
    str,
    Parameter(
        metavar="SPEC",
        show_env_var=False,
        help='Columns, each as "name type" or "name type not null".',
    ),
]
Nullable = Annotated[
    bool | None,
    Parameter(name="--nullable", negative="--not-null", help="Whether the column may hold nulls."),
]


class Level(StrEnum):
    """How freely the values of a column may be shown."""

    PUBLIC = "public"
    INTERNAL = "internal"
    CONFIDENTIAL = "confidential"
    RESTRICTED = "restricted"


app = App(
    name="column",
    help="Add, change and drop columns of a table.",
    help_epilogue=_EXAMPLES,
    config=CONFIG,
)


@app.command
def add(
    table: TableName,
    /,
    *columns: Spec,
    catalog: InCatalog = None,
    server: Server = _SERVER,
    json: AsJson = False,
) -> None:
    """Add columns to a table, in one commit."""
    from arco.cli.output import print_document
    from arco.client.object_name import parse_table

    parsed, added = parse_table(table, catalog), [read_column(each) for each in columns]
    if not added:
        raise Invalid('which column? Give it as "name type"')
    with server.open() as arco:
        made = arco.columns.add(parsed, added)
    if json:
        print_document({"columns": made})
    else:
        print(f"Added {', '.join(str(each['name']) for each in added)} to {parsed}.")


@app.command
def change(
    table: TableName,
    column: ColumnName,
    /,
    *,
    rename: Annotated[str | None, Parameter(metavar="NEW", help="The new name.")] = None,
    type_: Annotated[
        str | None, Parameter(name="--type", metavar="TYPE", help="The new type.")
    ] = None,
    nullable: Nullable = None,
    comment: Annotated[
        str | None, Parameter(metavar="TEXT", help="A description; an empty text removes it.")
    ] = None,
    pii: Annotated[
        str | None,
        Parameter(
            metavar="KIND", help="The kind of personal data in it, such as EMAIL; '' for none."
        ),
    ] = None,
    sensitivity: Annotated[
        Level | None, Parameter(help="How freely its values may be shown.")
    ] = None,
    catalog: InCatalog = None,
    server: Server = _SERVER,
    json: AsJson = False,
) -> None:
    """Change the given properties of a column."""
    from arco.cli.output import print_raw
    from arco.client.object_name import parse_table

    options: dict[str, Any] = {
        "name": rename,
        "data_type": type_,
        "nullable": nullable,
        "comment": comment,
        "pii_type": pii,
        "sensitivity": None if sensitivity is None else sensitivity.upper(),
    }
    changes = {key: value for key, value in options.items() if value is not None}
    if not changes:
        raise Invalid(
            "nothing to change: give --rename, --type, --nullable, --not-null, --comment, --pii or "
            "--sensitivity"
        )
    for key in ("comment", "pii_type"):
        if changes.get(key) == "":
            changes[key] = None
    parsed = parse_table(table, catalog)
    with server.open() as arco:
        changed = arco.columns.update(parsed, column, **changes)
    print_raw(changed.raw) if json else print(f"Changed {column} of {parsed}.")


@app.command
def drop(
    table: TableName,
    column: ColumnName,
    /,
    *,
    catalog: InCatalog = None,
    server: Server = _SERVER,
    json: AsJson = False,
) -> None:
    """Drop a column."""
    from arco.cli.output import print_document
    from arco.client.object_name import parse_table

    parsed = parse_table(table, catalog)
    with server.open() as arco:
        arco.columns.drop(parsed, column)
    if json:
        print_document({"dropped": column, "table": str(parsed)})
    else:
        print(f"Dropped {column} of {parsed}.")


def read_column(text: str) -> dict[str, Json]:
    """The column that `text` describes, as the API takes it; the server knows the types."""
    match = _SPEC.fullmatch(text)
    if match is None:
        raise Invalid(f'a column is "name type" or "name type not null", not {text[:80]!r}')
    quoted, ticked, bare, data_type, not_null = match.groups()
    name = bare or (quoted.replace('""', '"') if quoted else ticked.replace("``", "`"))
    return {"name": name, "data_type": data_type, "nullable": not_null is None}


def read_columns(specs: tuple[str, ...], file: str | None) -> list[Any]:
    """The columns of a new table: those of a file first, then those of the command line."""
    listed: list[Any] = [] if file is None else _from_file(Path(file).expanduser())
    return [*listed, *(read_column(each) for each in specs)]


def _from_file(file: Path) -> list[Any]:
    try:
        raw = file.read_bytes()
    except OSError as problem:
        reason = (problem.strerror or "").lower()
        raise Invalid(f"--columns-file {str(file)!r} cannot be read: {reason}") from problem
    try:
        document = documents.decode(raw, object)
    except Invalid as problem:
        raise Invalid(f"--columns-file {str(file)!r} is not JSON: {problem}") from problem
    columns = document.get("columns") if isinstance(document, dict) else document
    if not isinstance(columns, list):
        raise Invalid(
            f"--columns-file {str(file)!r} has to hold a list of columns such as "
            '[{"name": "id", "data_type": "bigint"}]'
        )
    return columns
