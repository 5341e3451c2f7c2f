"""`arco table`: the tables of a running Arco."""

from cyclopts import App

from arco.cli.flags import (
    CONFIG,
    AsJson,
    AsOf,
    ById,
    Columns,
    ColumnsFile,
    Described,
    Dropped,
    Format,
    From,
    InCatalog,
    Location,
    NewName,
    NewNameFlag,
    Parent,
    Server,
    TableName,
    To,
)
from arco.cli.target import Kind, read_parent_of_tables, read_table

_EXAMPLES = """\
Examples:
  arco table create sales.orders --format parquet \\
      --column "id bigint not null" --column "email string" --tag gold
  arco table create lake.raw.orders --format delta \\
      --location s3://lake/raw/orders --columns-file columns.json
  arco table list                              all tables of the catalog default
  arco table list sales                        those of one schema
  arco table show sales.orders --as-of 17
  arco table files sales.orders                those of a plain Parquet table
  arco table rename sales.orders sales.orders_2026
  arco table rename sales.orders lake.archive.orders     moves it
  arco table drop sales.orders
  arco table undrop sales.orders --as orders_old
  arco table history sales.orders
  arco table diff --from 3 --to 9

Two parts are a schema of the catalog default and a table; of more, the first
is the catalog. With --catalog all but the last are schemas. Double quotes go
around a part with a dot."""

_SERVER = Server()
_DESCRIBED = Described()

app = App(
    name="table",
    help="Tables of a running Arco: create, list, rename, drop, look back.",
    help_epilogue=_EXAMPLES,
    config=CONFIG,
)


@app.command
def create(
    name: TableName,
    /,
    *,
    format_: Format,
    column: Columns = (),
    columns_file: ColumnsFile = None,
    location: Location = None,
    described: Described = _DESCRIBED,
    catalog: InCatalog = None,
    server: Server = _SERVER,
    json: AsJson = False,
) -> None:
    """Make a table; without a location Arco chooses one and owns it."""
    from arco.cli import verbs
    from arco.cli.column_spec import read_columns

    body = {
        "format": format_.upper(),
        "location": location,
        "columns": read_columns(column, columns_file),
        **described.body(),
    }
    with server.open() as remote:
        verbs.create(remote, read_table(name, catalog), body, as_json=json)


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
    """List the tables of a schema, or all tables of a catalog."""
    from arco.cli import verbs

    within = read_parent_of_tables(parent, catalog)
    with server.open() as remote:
        verbs.print_children(remote, Kind.TABLE, within, dropped=dropped, as_of=as_of, as_json=json)


@app.command
def show(
    name: TableName,
    /,
    *,
    as_of: AsOf = None,
    catalog: InCatalog = None,
    server: Server = _SERVER,
    json: AsJson = False,
) -> None:
    """Show one table."""
    from arco.cli import verbs

    with server.open() as remote:
        verbs.show(remote, read_table(name, catalog), as_of, as_json=json)


@app.command
def files(
    name: TableName,
    /,
    *,
    catalog: InCatalog = None,
    server: Server = _SERVER,
    json: AsJson = False,
) -> None:
    """List the files that a plain Parquet table consists of now."""
    from arco.cli.files import print_files

    with server.open() as remote:
        print_files(remote, read_table(name, catalog), as_json=json)


@app.command
def rename(
    name: TableName,
    new: NewName,
    /,
    *,
    catalog: InCatalog = None,
    server: Server = _SERVER,
    json: AsJson = False,
) -> None:
    """Give a table another name, or move it to another schema or catalog."""
    from arco.cli import verbs

    with server.open() as remote:
        verbs.rename(remote, read_table(name, catalog), read_table(new, catalog), as_json=json)


@app.command
def drop(
    name: TableName,
    /,
    *,
    catalog: InCatalog = None,
    server: Server = _SERVER,
    json: AsJson = False,
) -> None:
    """Drop a table; its files stay where they are until it can no longer come back."""
    from arco.cli import verbs

    with server.open() as remote:
        verbs.drop(remote, read_table(name, catalog), force=False, as_json=json)


@app.command
def undrop(
    name: TableName | None = None,
    /,
    *,
    id_: ById = None,
    as_: NewNameFlag = None,
    catalog: InCatalog = None,
    server: Server = _SERVER,
    json: AsJson = False,
) -> None:
    """Bring back the table of that name that was dropped last."""
    from arco.cli import past

    target = None if name is None else read_table(name, catalog)
    with server.open() as remote:
        past.undrop(remote, Kind.TABLE, target, id_, as_, as_json=json)


@app.command
def history(
    name: TableName | None = None,
    /,
    *,
    id_: ById = None,
    catalog: InCatalog = None,
    server: Server = _SERVER,
    json: AsJson = False,
) -> None:
    """List the versions of a table: when, by whom, and what was done."""
    from arco.cli import past

    target = None if name is None else read_table(name, catalog)
    with server.open() as remote:
        past.history(remote, Kind.TABLE, target, id_, as_json=json)


@app.command
def diff(
    name: TableName | None = None,
    /,
    *,
    from_: From,
    to: To = None,
    catalog: InCatalog = None,
    server: Server = _SERVER,
    json: AsJson = False,
) -> None:
    """List tables that changed between two points, or what changed of one."""
    from arco.cli import past

    target = None if name is None else read_table(name, catalog)
    with server.open() as remote:
        past.diff(remote, Kind.TABLE, target, from_, to, as_json=json)
