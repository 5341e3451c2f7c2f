"""DuckDB with its Iceberg extension, attached by the lines that a user pastes."""

from importlib import import_module
from pathlib import Path
from typing import Any

import duckdb
import pytest

from arco.cli.connect import SnippetEngine
from tests.interop.rest import Rest

_EXTENSIONS = ("avro", "httpfs", "iceberg")  # as wheels: nothing is fetched while the tests run


def name() -> str:
    return f"DuckDB {duckdb.__version__}"


def connect(rest: Rest, extensions: Path) -> duckdb.DuckDBPyConnection:
    """A connection that knows the catalog as `arco`; what it installs goes to `extensions`."""
    connection = duckdb.connect(config={"extension_directory": str(extensions)})
    install(connection)
    connection.execute(rest.snippet(SnippetEngine.DUCKDB))
    return connection


def install(connection: duckdb.DuckDBPyConnection) -> None:
    """Give the connection the extensions of its version."""
    try:
        wheels = import_module("duckdb_extensions")
    except ModuleNotFoundError:
        pytest.skip("the extensions of DuckDB are not installed: use `make interop`")
    for extension in _EXTENSIONS:
        wheels.import_extension(extension, con=connection)


def ask(connection: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query."""
    return connection.execute(sql).fetchall()
