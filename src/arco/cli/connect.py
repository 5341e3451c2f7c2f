"""`arco connect`: the code that connects an engine to a running server.

The snippets exist once: `arco connect` prints them, docs/how-to/connect-engines.md shows them, and
`make interop` runs them. A token is never part of one: the snippet reads ARCO_TOKEN when it runs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from json import dumps
from typing import Annotated

from cyclopts import App, Parameter

from arco.cli.flags import CONFIG, Server
from arco.core.sql_literal import quote_text
from arco.flow.spark.jars import SPARK_PACKAGE

_EXAMPLES = """\
Examples:
  arco connect pyiceberg                       Python with PyIceberg
  arco connect spark --warehouse lake          a Spark session with the catalog lake
  arco connect duckdb | duckdb                 SQL for DuckDB
  arco connect spark --url https://arco.example

The code connects to the server at http://127.0.0.1:8181, or at --url. A token is
never printed: the code reads it from ARCO_TOKEN when it runs."""

_SERVER = Server()


class SnippetEngine(StrEnum):
    """An engine that there is a snippet for."""

    SPARK = "spark"
    PYICEBERG = "pyiceberg"
    DUCKDB = "duckdb"


app = App(
    name="connect",
    help="Print the code that connects Spark, PyIceberg or DuckDB.",
    help_epilogue=_EXAMPLES,
    config=CONFIG,
)


@app.default
def connect(
    engine: Annotated[SnippetEngine, Parameter(show_env_var=False)],
    /,
    *,
    warehouse: Annotated[str, Parameter(metavar="NAME")] = "default",
    server: Server = _SERVER,
) -> None:
    """Print the code that connects an engine to the Iceberg catalog of a running server.

    Parameters
    ----------
    engine
        The engine.
    warehouse
        The catalog, which engines call the warehouse.
    server
        The server that the engine will connect to. The command first checks that it has the catalog.
    """
    from arco.client.object_name import ObjectName

    with server.open() as arco:
        arco.catalogs.get(ObjectName(warehouse))
        endpoint = CatalogEndpoint(arco.url, warehouse, with_token=server.has_token())
    print(snippet(engine, endpoint))


@dataclass(frozen=True)
class CatalogEndpoint:
    """The Iceberg catalog of an Arco: its URL, and the catalog that engines call the warehouse."""

    url: str
    warehouse: str
    with_token: bool = False

    @property
    def uri(self) -> str:
        """What engines take as the URI of a REST catalog."""
        return f"{self.url.rstrip('/')}/iceberg"


def snippet(engine: SnippetEngine, endpoint: CatalogEndpoint) -> str:
    """The lines that make `engine` know the catalog as `arco`."""
    return "\n".join(_SNIPPETS[engine](endpoint))


def _spark(endpoint: CatalogEndpoint) -> list[str]:
    extensions = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    settings = {
        "spark.jars.packages": _python(SPARK_PACKAGE),
        "spark.sql.extensions": _python(extensions),
        "spark.sql.catalog.arco": _python("org.apache.iceberg.spark.SparkCatalog"),
        "spark.sql.catalog.arco.type": _python("rest"),
        "spark.sql.catalog.arco.uri": _python(endpoint.uri),
        "spark.sql.catalog.arco.warehouse": _python(endpoint.warehouse),
    }
    if endpoint.with_token:
        settings["spark.sql.catalog.arco.token"] = 'os.environ["ARCO_TOKEN"]'
    lines = [f'    .config("{name}", {value})' for name, value in settings.items()]
    return [
        *_imports(endpoint, "from pyspark.sql import SparkSession"),
        "spark = (",
        "    SparkSession.builder",
        *lines,
        "    .getOrCreate()",
        ")",
        'spark.sql("SHOW NAMESPACES IN arco").show()',
    ]


def _pyiceberg(endpoint: CatalogEndpoint) -> list[str]:
    token = ['    token=os.environ["ARCO_TOKEN"],'] if endpoint.with_token else []
    return [
        *_imports(endpoint, "from pyiceberg.catalog import load_catalog"),
        "catalog = load_catalog(",
        '    "arco",',
        '    type="rest",',
        f"    uri={_python(endpoint.uri)},",
        f"    warehouse={_python(endpoint.warehouse)},",
        *token,
        ")",
        "print(catalog.list_namespaces())",
    ]


def _duckdb(endpoint: CatalogEndpoint) -> list[str]:
    lines = ["INSTALL iceberg;", "LOAD iceberg;"]
    options = f"TYPE iceberg, ENDPOINT {quote_text(endpoint.uri)}"
    if endpoint.with_token:
        lines += ["CREATE SECRET arco (TYPE iceberg, TOKEN getenv('ARCO_TOKEN'));"]
        options += ", SECRET arco"
    else:
        options += ", AUTHORIZATION_TYPE 'none'"
    return [
        *lines,
        f"ATTACH {quote_text(endpoint.warehouse)} AS arco ({options});",
        "SHOW ALL TABLES;",
    ]


def _imports(endpoint: CatalogEndpoint, line: str) -> list[str]:
    return [*(["import os", ""] if endpoint.with_token else []), line, ""]


def _python(text: str) -> str:
    """A literal of Python, which every string of JSON is, in double quotes like the rest of a snippet."""
    return dumps(text, ensure_ascii=False)


_SNIPPETS: Mapping[SnippetEngine, Callable[[CatalogEndpoint], list[str]]] = {
    SnippetEngine.SPARK: _spark,
    SnippetEngine.PYICEBERG: _pyiceberg,
    SnippetEngine.DUCKDB: _duckdb,
}
