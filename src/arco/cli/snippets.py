"""Snippets: how each engine reaches the Iceberg catalog of an Arco, ready to be copied.

They stand here once. `arco connect` prints them, docs/engines.md shows them, and `make interop` runs them.
A token never stands in one: it is read from ARCO_TOKEN when the snippet runs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from json import dumps

from arco.flow.spark.jars import SPARK_PACKAGE


class Engine(StrEnum):
    """An engine that there is a snippet for."""

    SPARK = "spark"
    PYICEBERG = "pyiceberg"
    DUCKDB = "duckdb"


@dataclass(frozen=True)
class Door:
    """Where the Iceberg catalog is: the URL of an Arco, and the catalog that engines call the warehouse."""

    url: str
    warehouse: str
    with_token: bool = False

    @property
    def uri(self) -> str:
        """What engines take as the URI of a REST catalog."""
        return f"{self.url.rstrip('/')}/iceberg"


def snippet(engine: Engine, door: Door) -> str:
    """The lines that make `engine` know the catalog as `arco`."""
    return "\n".join(_SNIPPETS[engine](door))


def _spark(door: Door) -> list[str]:
    extensions = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    settings = {
        "spark.jars.packages": _python(SPARK_PACKAGE),
        "spark.sql.extensions": _python(extensions),
        "spark.sql.catalog.arco": _python("org.apache.iceberg.spark.SparkCatalog"),
        "spark.sql.catalog.arco.type": _python("rest"),
        "spark.sql.catalog.arco.uri": _python(door.uri),
        "spark.sql.catalog.arco.warehouse": _python(door.warehouse),
    }
    if door.with_token:
        settings["spark.sql.catalog.arco.token"] = 'os.environ["ARCO_TOKEN"]'
    lines = [f'    .config("{name}", {value})' for name, value in settings.items()]
    return [
        *_imports(door, "from pyspark.sql import SparkSession"),
        "spark = (",
        "    SparkSession.builder",
        *lines,
        "    .getOrCreate()",
        ")",
        'spark.sql("SHOW NAMESPACES IN arco").show()',
    ]


def _pyiceberg(door: Door) -> list[str]:
    token = ['    token=os.environ["ARCO_TOKEN"],'] if door.with_token else []
    return [
        *_imports(door, "from pyiceberg.catalog import load_catalog"),
        "catalog = load_catalog(",
        '    "arco",',
        '    type="rest",',
        f"    uri={_python(door.uri)},",
        f"    warehouse={_python(door.warehouse)},",
        *token,
        ")",
        "print(catalog.list_namespaces())",
    ]


def _duckdb(door: Door) -> list[str]:
    lines = ["INSTALL iceberg;", "LOAD iceberg;"]
    options = f"TYPE iceberg, ENDPOINT {_sql(door.uri)}"
    if door.with_token:
        lines += ["CREATE SECRET arco (TYPE iceberg, TOKEN getenv('ARCO_TOKEN'));"]
        options += ", SECRET arco"
    else:
        options += ", AUTHORIZATION_TYPE 'none'"
    return [*lines, f"ATTACH {_sql(door.warehouse)} AS arco ({options});", "SHOW ALL TABLES;"]


def _imports(door: Door, line: str) -> list[str]:
    return [*(["import os", ""] if door.with_token else []), line, ""]


def _python(text: str) -> str:
    """A literal of Python, which every string of JSON is, in double quotes like the rest of a snippet."""
    return dumps(text, ensure_ascii=False)


def _sql(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


_SNIPPETS: Mapping[Engine, Callable[[Door], list[str]]] = {
    Engine.SPARK: _spark,
    Engine.PYICEBERG: _pyiceberg,
    Engine.DUCKDB: _duckdb,
}
