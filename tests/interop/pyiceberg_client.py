"""PyIceberg, connected by the lines that a user pastes, and the tables that its suites write."""

from importlib.metadata import version
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from arco.cli.connect import SnippetEngine
from tests.interop.rest import Rest

ROWS = pa.schema([("id", pa.int64()), ("word", pa.string())])
IDS = pa.schema([("id", pa.int64())])


def name() -> str:
    return f"PyIceberg {version('pyiceberg')}"


def connect(rest: Rest) -> Catalog:
    """What the snippet calls `catalog`."""
    names: dict[str, Any] = {}
    exec(rest.snippet(SnippetEngine.PYICEBERG), names)
    catalog = names["catalog"]
    assert isinstance(catalog, Catalog)
    return catalog


def rows(*pairs: tuple[int, str]) -> pa.Table:
    """Rows of the table that most tests use."""
    return pa.Table.from_pylist([{"id": key, "word": word} for key, word in pairs], schema=ROWS)


def numbered(*ids: int) -> pa.Table:
    return rows(*((each, f"w{each}") for each in ids))


def content(table: Table, **scan: Any) -> list[dict[str, Any]]:
    """All rows, by id."""
    table_rows = table.scan(**scan).to_arrow().to_pylist()
    return sorted(table_rows, key=lambda row: (row["id"] is None, row["id"]))


def ids(table: Table, **scan: Any) -> list[int]:
    """The ids of all rows, in order, each as often as it is there."""
    return [row["id"] for row in content(table, **scan)]
