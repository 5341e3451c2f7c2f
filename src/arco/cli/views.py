"""`arco view`: the views of a running Arco."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from arco.cli.flags import (
    CONFIG,
    AsJson,
    AsOf,
    ById,
    Columns,
    ColumnsFile,
    Described,
    Dropped,
    InCatalog,
    NewName,
    NewNameFlag,
    Parent,
    Server,
    ViewName,
)
from arco.cli.target import Kind, read_parent_of_tables, read_view
from arco.core.errors import Invalid

_EXAMPLES = """\
Examples:
  arco view create sales.open_orders --column "id bigint" --column "at date" \\
      --sql "SELECT id, at FROM orders WHERE open"
  arco view create sales.open_orders --sql-file view.sql --dialect trino \\
      --columns-file columns.json
  arco view list sales
  arco view show sales.open_orders
  arco view rename sales.open_orders sales.opened
  arco view drop sales.open_orders
  arco view undrop sales.open_orders

Tables and views share their names: `arco table list` has both, and `arco table
history` works for both."""

_SERVER = Server()
_DESCRIBED = Described()

Sql = Annotated[str | None, Parameter(metavar="QUERY", help="The query that the view shows.")]
SqlFile = Annotated[str | None, Parameter(metavar="FILE", help="A file with the query instead.")]
Dialect = Annotated[
    str | None, Parameter(metavar="NAME", help="Whose SQL it is: spark unless given.")
]

app = App(
    name="view",
    help="Views of a running Arco: create, list, rename, drop.",
    help_epilogue=_EXAMPLES,
    config=CONFIG,
)


@app.command
def create(
    name: ViewName,
    /,
    *,
    sql: Sql = None,
    sql_file: SqlFile = None,
    dialect: Dialect = None,
    column: Columns = (),
    columns_file: ColumnsFile = None,
    described: Described = _DESCRIBED,
    catalog: InCatalog = None,
    server: Server = _SERVER,
    json: AsJson = False,
) -> None:
    """Make a view out of its query and the columns that this results in."""
    from arco.cli import verbs
    from arco.cli.column_spec import read_columns

    body = {
        "sql": _query(sql, sql_file),
        "dialect": dialect,
        "columns": read_columns(column, columns_file),
        **described.body(),
    }
    with server.open() as remote:
        verbs.create(remote, read_view(name, catalog), body, as_json=json)


@app.command(name="list")
def list_(
    parent: Parent = None,
    /,
    *,
    dropped: Dropped = False,
    as_of: AsOf = None,
    catalog: InCatalog = None,
    server: Server = _SERVER,
    json: AsJson = False,
) -> None:
    """List the views of a schema, or all views of a catalog."""
    from arco.cli import verbs

    within = read_parent_of_tables(parent, catalog)
    with server.open() as remote:
        verbs.print_children(remote, Kind.VIEW, within, dropped=dropped, as_of=as_of, as_json=json)


@app.command
def show(
    name: ViewName,
    /,
    *,
    as_of: AsOf = None,
    catalog: InCatalog = None,
    server: Server = _SERVER,
    json: AsJson = False,
) -> None:
    """Show one view with its query."""
    from arco.cli import verbs

    with server.open() as remote:
        verbs.show(remote, read_view(name, catalog), as_of, as_json=json)


@app.command
def rename(
    name: ViewName,
    new: NewName,
    /,
    *,
    catalog: InCatalog = None,
    server: Server = _SERVER,
    json: AsJson = False,
) -> None:
    """Give a view another name, or move it to another schema or catalog."""
    from arco.cli import verbs

    with server.open() as remote:
        verbs.rename(remote, read_view(name, catalog), read_view(new, catalog), as_json=json)


@app.command
def drop(
    name: ViewName,
    /,
    *,
    catalog: InCatalog = None,
    server: Server = _SERVER,
    json: AsJson = False,
) -> None:
    """Drop a view."""
    from arco.cli import verbs

    with server.open() as remote:
        verbs.drop(remote, read_view(name, catalog), force=False, as_json=json)


@app.command
def undrop(
    name: ViewName | None = None,
    /,
    *,
    id_: ById = None,
    as_: NewNameFlag = None,
    catalog: InCatalog = None,
    server: Server = _SERVER,
    json: AsJson = False,
) -> None:
    """Bring back the view of that name that was dropped last."""
    from arco.cli import past

    target = None if name is None else read_view(name, catalog)
    with server.open() as remote:
        past.undrop(remote, Kind.VIEW, target, id_, as_, as_json=json)


def _query(sql: str | None, file: str | None) -> str:
    if (sql is None) == (file is None):
        raise Invalid("give the view's query with --sql or --sql-file, and not with both")
    if file is None:
        return sql or ""
    try:
        return Path(file).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "it is not text"
        raise Invalid(f"--sql-file {file!r} cannot be read: {reason.lower()}") from problem
