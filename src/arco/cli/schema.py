"""`arco schema`: the schemas of a running Arco."""

from cyclopts import App

from arco.cli.flags import (
    CONFIG,
    AsJson,
    AsOf,
    ById,
    Described,
    Dropped,
    Force,
    From,
    InCatalog,
    NewName,
    NewNameFlag,
    Parent,
    SchemaName,
    Server,
    To,
)
from arco.cli.target import Kind, read_parent_of_schemas, read_schema

_EXAMPLES = """\
Examples:
  arco schema create sales                     in the catalog default
  arco schema create lake.raw                  in the catalog lake
  arco schema create default.sales.eu          below the schema sales of default
  arco schema list                             at the top of default
  arco schema list lake.raw                    right below lake.raw
  arco schema show lake.raw --as-of 17
  arco schema rename lake.raw lake.bronze
  arco schema drop lake.bronze --force         with all that it holds
  arco schema undrop lake.bronze
  arco schema history sales
  arco schema diff sales --from 3              the schema and all that it holds

One part is a schema of the catalog default; of more, the first is the catalog.
With --catalog every part is a schema. Double quotes go around a part with a dot."""

_SERVER = Server()
_DESCRIBED = Described()

app = App(
    name="schema",
    help="Schemas of a running Arco: create, list, rename, drop, look back.",
    help_epilogue=_EXAMPLES,
    config=CONFIG,
)


@app.command
def create(
    name: SchemaName,
    /,
    *,
    described: Described = _DESCRIBED,
    catalog: InCatalog = None,
    server: Server = _SERVER,
    json: AsJson = False,
) -> None:
    """Make a schema."""
    from arco.cli import verbs

    with server.open() as remote:
        verbs.create(remote, read_schema(name, catalog), described.body(), as_json=json)


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
    """List the schemas right below a catalog or a schema."""
    from arco.cli import verbs

    within = read_parent_of_schemas(parent, catalog)
    with server.open() as remote:
        verbs.print_children(
            remote, Kind.SCHEMA, within, dropped=dropped, as_of=as_of, as_json=json
        )


@app.command
def show(
    name: SchemaName,
    /,
    *,
    as_of: AsOf = None,
    catalog: InCatalog = None,
    server: Server = _SERVER,
    json: AsJson = False,
) -> None:
    """Show one schema."""
    from arco.cli import verbs

    with server.open() as remote:
        verbs.show(remote, read_schema(name, catalog), as_of, as_json=json)


@app.command
def rename(
    name: SchemaName,
    new: NewName,
    /,
    *,
    catalog: InCatalog = None,
    server: Server = _SERVER,
    json: AsJson = False,
) -> None:
    """Give a schema another name; it stays where it is."""
    from arco.cli import verbs

    with server.open() as remote:
        verbs.rename(remote, read_schema(name, catalog), read_schema(new, catalog), as_json=json)


@app.command
def drop(
    name: SchemaName,
    /,
    *,
    force: Force = False,
    catalog: InCatalog = None,
    server: Server = _SERVER,
    json: AsJson = False,
) -> None:
    """Drop a schema that is empty, or with --force one that is not."""
    from arco.cli import verbs

    with server.open() as remote:
        verbs.drop(remote, read_schema(name, catalog), force=force, as_json=json)


@app.command
def undrop(
    name: SchemaName | None = None,
    /,
    *,
    id_: ById = None,
    as_: NewNameFlag = None,
    catalog: InCatalog = None,
    server: Server = _SERVER,
    json: AsJson = False,
) -> None:
    """Bring back the schema of that name that was dropped last."""
    from arco.cli import past

    target = None if name is None else read_schema(name, catalog)
    with server.open() as remote:
        past.undrop(remote, Kind.SCHEMA, target, id_, as_, as_json=json)


@app.command
def history(
    name: SchemaName | None = None,
    /,
    *,
    id_: ById = None,
    catalog: InCatalog = None,
    server: Server = _SERVER,
    json: AsJson = False,
) -> None:
    """List the versions of a schema: when, by whom, and what was done."""
    from arco.cli import past

    target = None if name is None else read_schema(name, catalog)
    with server.open() as remote:
        past.history(remote, Kind.SCHEMA, target, id_, as_json=json)


@app.command
def diff(
    name: SchemaName | None = None,
    /,
    *,
    from_: From,
    to: To = None,
    catalog: InCatalog = None,
    server: Server = _SERVER,
    json: AsJson = False,
) -> None:
    """List schemas that changed between two points, or all that changed in one."""
    from arco.cli import past

    target = None if name is None else read_schema(name, catalog)
    with server.open() as remote:
        past.diff(remote, Kind.SCHEMA, target, from_, to, as_json=json)
