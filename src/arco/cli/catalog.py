"""`arco catalog`: the catalogs of a running Arco."""

from cyclopts import App

from arco.cli.flags import (
    CONFIG,
    AsJson,
    AsOf,
    ById,
    CatalogName,
    Described,
    Dropped,
    Force,
    From,
    NewName,
    NewNameFlag,
    Server,
    To,
)
from arco.cli.target import Kind, read_catalog

_EXAMPLES = """\
Examples:
  arco catalog create lake --comment "All of it" --owner group:data
  arco catalog list
  arco catalog list --dropped
  arco catalog show lake --as-of 2026-01-31T12:00:00Z
  arco catalog rename lake ocean
  arco catalog drop ocean --force              with all that it holds
  arco catalog undrop ocean --as lake
  arco catalog history lake
  arco catalog diff lake --from 3 --to 9       the catalog and all that it holds

They ask the Arco at http://127.0.0.1:8181, or at --url."""

_SERVER = Server()
_DESCRIBED = Described()

app = App(
    name="catalog",
    help="Catalogs of a running Arco: create, list, rename, drop, look back.",
    help_epilogue=_EXAMPLES,
    config=CONFIG,
)


@app.command
def create(
    name: CatalogName,
    /,
    *,
    described: Described = _DESCRIBED,
    server: Server = _SERVER,
    json: AsJson = False,
) -> None:
    """Make a catalog."""
    from arco.cli import verbs

    with server.open() as remote:
        verbs.create(remote, read_catalog(name), described.body(), as_json=json)


@app.command(name="list")
def list_(
    *,
    dropped: Dropped = False,
    as_of: AsOf = None,
    server: Server = _SERVER,
    json: AsJson = False,
) -> None:
    """List catalogs."""
    from arco.cli import verbs

    with server.open() as remote:
        verbs.print_children(remote, Kind.CATALOG, None, dropped=dropped, as_of=as_of, as_json=json)


@app.command
def show(
    name: CatalogName,
    /,
    *,
    as_of: AsOf = None,
    server: Server = _SERVER,
    json: AsJson = False,
) -> None:
    """Show one catalog."""
    from arco.cli import verbs

    with server.open() as remote:
        verbs.show(remote, read_catalog(name), as_of, as_json=json)


@app.command
def rename(
    name: CatalogName, new: NewName, /, *, server: Server = _SERVER, json: AsJson = False
) -> None:
    """Give a catalog another name."""
    from arco.cli import verbs

    with server.open() as remote:
        verbs.rename(remote, read_catalog(name), read_catalog(new), as_json=json)


@app.command
def drop(
    name: CatalogName,
    /,
    *,
    force: Force = False,
    server: Server = _SERVER,
    json: AsJson = False,
) -> None:
    """Drop a catalog that is empty, or with --force one that is not."""
    from arco.cli import verbs

    with server.open() as remote:
        verbs.drop(remote, read_catalog(name), force=force, as_json=json)


@app.command
def undrop(
    name: CatalogName | None = None,
    /,
    *,
    id_: ById = None,
    as_: NewNameFlag = None,
    server: Server = _SERVER,
    json: AsJson = False,
) -> None:
    """Bring back the catalog of that name that was dropped last."""
    from arco.cli import past

    target = None if name is None else read_catalog(name)
    with server.open() as remote:
        past.undrop(remote, Kind.CATALOG, target, id_, as_, as_json=json)


@app.command
def history(
    name: CatalogName | None = None,
    /,
    *,
    id_: ById = None,
    server: Server = _SERVER,
    json: AsJson = False,
) -> None:
    """List the versions of a catalog: when, by whom, and what was done."""
    from arco.cli import past

    target = None if name is None else read_catalog(name)
    with server.open() as remote:
        past.history(remote, Kind.CATALOG, target, id_, as_json=json)


@app.command
def diff(
    name: CatalogName | None = None,
    /,
    *,
    from_: From,
    to: To = None,
    server: Server = _SERVER,
    json: AsJson = False,
) -> None:
    """List catalogs that changed between two points, or all that changed in one."""
    from arco.cli import past

    target = None if name is None else read_catalog(name)
    with server.open() as remote:
        past.diff(remote, Kind.CATALOG, target, from_, to, as_json=json)
