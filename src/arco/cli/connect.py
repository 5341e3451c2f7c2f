"""`arco connect`: what to paste into an engine so that it works with a running Arco."""

from typing import Annotated

from cyclopts import App, Parameter

from arco.cli.flags import CONFIG, Server
from arco.cli.snippets import Door, Engine, snippet

_EXAMPLES = """\
Examples:
  arco connect pyiceberg                       Python, with PyIceberg
  arco connect spark --warehouse lake          a Spark session, on the catalog lake
  arco connect duckdb | duckdb                 SQL for DuckDB
  arco connect spark --url https://arco.example

The lines name the Arco at http://127.0.0.1:8181, or at --url. With a token, they read
it from ARCO_TOKEN when they run: it is never printed."""

_SERVER = Server()

app = App(
    name="connect",
    help="Print what to paste into an engine: Spark, PyIceberg or DuckDB.",
    help_epilogue=_EXAMPLES,
    config=CONFIG,
)


@app.default
def connect(
    engine: Annotated[Engine, Parameter(show_env_var=False)],
    /,
    *,
    warehouse: Annotated[str, Parameter(metavar="NAME")] = "default",
    server: Server = _SERVER,
) -> None:
    """Print the lines with which an engine reaches the Iceberg catalog of a running Arco.

    Parameters
    ----------
    engine
        The engine.
    warehouse
        The catalog, which engines call the warehouse.
    server
        The Arco that the engine will ask. It is asked first whether it has that catalog.
    """
    from arco.cli.remote import path

    with server.open() as remote:
        remote.get(path("catalogs", warehouse))
        door = Door(remote.url, warehouse, with_token=server.has_token())
    print(snippet(engine, door))
