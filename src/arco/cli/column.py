"""`arco column`: the columns of a table of a running Arco."""

from enum import StrEnum
from typing import Annotated

from cyclopts import App, Parameter

from arco.cli.flags import CONFIG, AsJson, ColumnName, InCatalog, Server, TableName
from arco.cli.target import read_table

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
    Parameter(
        name="--nullable", negative="--not-null", help="Whether it may hold nulls from now on."
    ),
]


class Level(StrEnum):
    """How freely the values of a column may be shown."""

    PUBLIC = "public"
    INTERNAL = "internal"
    CONFIDENTIAL = "confidential"
    RESTRICTED = "restricted"


app = App(
    name="column",
    help="Columns of a table: add, change, drop.",
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
    """Add columns to a table, all in one change."""
    from arco.cli.column_spec import read_column
    from arco.cli.columns import add_columns

    target = read_table(table, catalog)
    with server.open() as remote:
        add_columns(remote, target, [read_column(each) for each in columns], as_json=json)


@app.command
def change(
    table: TableName,
    column: ColumnName,
    /,
    *,
    rename: Annotated[str | None, Parameter(metavar="NEW", help="Its new name.")] = None,
    type_: Annotated[
        str | None, Parameter(name="--type", metavar="TYPE", help="Its new type.")
    ] = None,
    nullable: Nullable = None,
    comment: Annotated[
        str | None, Parameter(metavar="TEXT", help="What it is; an empty text removes it.")
    ] = None,
    pii: Annotated[
        str | None,
        Parameter(
            metavar="KIND", help="The personal data that it holds, such as EMAIL; '' for none."
        ),
    ] = None,
    sensitivity: Annotated[
        Level | None, Parameter(help="How freely its values may be shown.")
    ] = None,
    catalog: InCatalog = None,
    server: Server = _SERVER,
    json: AsJson = False,
) -> None:
    """Change a column: only what is named changes."""
    from arco.cli.columns import change_column

    wish = {
        "name": rename,
        "data_type": type_,
        "nullable": nullable,
        "comment": comment,
        "pii_type": pii,
        "sensitivity": None if sensitivity is None else sensitivity.upper(),
    }
    target = read_table(table, catalog)
    with server.open() as remote:
        change_column(remote, target, column, wish, as_json=json)


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
    from arco.cli.columns import drop_column

    with server.open() as remote:
        drop_column(remote, read_table(table, catalog), column, as_json=json)
