"""One catalog, two protocols: what engines do is seen by Arco's own commands, and the other way round."""

import gzip
import json
import time
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import BadRequestError, RESTError
from pyiceberg.table import StaticTable, Table
from pyiceberg.types import DoubleType

from tests.cli import command
from tests.cli.serving import Served
from tests.interop import duckdb_client, pyiceberg_client
from tests.interop.pyiceberg_client import ROWS, connect, ids, numbered
from tests.interop.rest import Rest

pytestmark = pytest.mark.interop

client = pyiceberg_client.name


@pytest.fixture
def arco(rest: Rest) -> Served:
    if rest.served is None:
        pytest.skip("the commands are those of an Arco")
    return rest.served


def _columns(arco: Served, table: str) -> list[tuple[str, str]]:
    return [
        (each["name"], each["data_type"])
        for each in arco.document("table", "show", table)["columns"]
    ]


def _soon(read_columns: Any, expected_columns: Any) -> None:
    """Columns of a changed schema reach the catalog in the background."""
    until_s = time.monotonic() + 20
    while read_columns() != expected_columns and time.monotonic() < until_s:
        time.sleep(0.1)
    assert read_columns() == expected_columns


def test_a_table_of_an_engine_is_a_table_of_the_catalog(
    arco: Served, table: Table, namespace: str
) -> None:
    shown = arco.document("table", "show", f"{namespace}.t")

    assert (shown["format"], shown["table_type"]) == ("ICEBERG", "MANAGED")
    assert shown["location"].rstrip("/") == table.location()
    assert _columns(arco, f"{namespace}.t") == [("id", "bigint"), ("word", "string")]
    root = str(arco.root)
    output = command.arco("sql", "--root", root, "SELECT name FROM system.tables", "--json").stdout
    assert '"t"' in output


def test_a_changed_schema_reaches_the_catalog(arco: Served, table: Table, namespace: str) -> None:
    with table.update_schema() as update:
        update.add_column("price", DoubleType())
        update.rename_column("word", "text")

    expected_columns = [("id", "bigint"), ("text", "string"), ("price", "double")]
    _soon(lambda: _columns(arco, f"{namespace}.t"), expected_columns)


def test_a_table_that_an_engine_dropped_comes_back_with_its_rows(
    arco: Served, catalog: Catalog, table: Table, namespace: str
) -> None:
    table.append(numbered(1, 2))
    catalog.drop_table((namespace, "t"))
    arco.done("table", "undrop", f"{namespace}.t")
    restored_table = catalog.load_table((namespace, "t"))

    assert ids(restored_table) == [1, 2]
    restored_table.append(numbered(3))
    assert ids(catalog.load_table((namespace, "t"))) == [1, 2, 3]


def test_a_table_that_was_dropped_by_command_takes_no_more_commits(
    arco: Served, catalog: Catalog, table: Table, namespace: str
) -> None:
    table.append(numbered(1))
    arco.done("table", "drop", f"{namespace}.t")

    with pytest.raises(RESTError, match="NoSuchTableException"):
        table.append(numbered(2))
    assert catalog.list_tables(namespace) == []


def test_a_table_that_was_renamed_by_command_is_found_by_engines(
    arco: Served, catalog: Catalog, table: Table, namespace: str
) -> None:
    table.append(numbered(1))
    arco.done("table", "rename", f"{namespace}.t", f"{namespace}.u")

    assert catalog.list_tables(namespace) == [(namespace, "u")]
    assert ids(catalog.load_table((namespace, "u"))) == [1]


def test_a_table_that_was_made_by_command_is_written_by_engines(
    arco: Served, catalog: Catalog, namespace: str
) -> None:
    arco.done(
        *("table", "create", f"{namespace}.t", "--format", "iceberg"),
        *("--column", "id bigint", "--column", "word string"),
    )
    table = catalog.load_table((namespace, "t"))
    table.append(numbered(1, 2))

    assert ids(catalog.load_table((namespace, "t"))) == [1, 2]


def test_a_schema_that_was_made_by_command_is_a_namespace(
    arco: Served, catalog: Catalog, namespace: str
) -> None:
    arco.done("schema", "create", f"default.{namespace}.eu", "--comment", "In Europe")

    assert catalog.list_namespaces(namespace) == [(namespace, "eu")]
    catalog.create_table((namespace, "eu", "t"), ROWS)
    tables = arco.items("table", "list", f"default.{namespace}.eu")
    assert [each["name"] for each in tables] == ["t"]


def test_each_catalog_is_a_separate_warehouse(arco: Served, rest: Rest, namespace: str) -> None:
    arco.done("catalog", "create", namespace)
    other = connect(Rest(rest.uri, namespace, rest.outside, arco))
    other.create_namespace("only_here")
    other.create_table("only_here.t", ROWS).append(numbered(7))

    assert other.list_namespaces() == [("only_here",)]
    assert ("only_here",) not in connect(rest).list_namespaces()
    assert ids(other.load_table("only_here.t")) == [7]


def test_an_undeclared_location_is_refused(
    arco: Served, catalog: Catalog, namespace: str, tmp_path: Path
) -> None:
    directory = tmp_path / "undeclared"
    with pytest.raises(BadRequestError):
        catalog.create_table((namespace, "t"), ROWS, location=directory.as_uri())

    assert catalog.list_tables(namespace) == []
    assert not directory.exists()


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_the_metadata_file_is_read_without_any_catalog(
    catalog: Catalog, namespace: str, tmp_path: Path, codec: str
) -> None:
    properties = {"write.metadata.compression-codec": codec}
    table = catalog.create_table((namespace, "t"), ROWS, properties=properties)
    table.append(numbered(1, 2, 3))
    location = table.metadata_location
    path = Path(location.removeprefix("file://"))
    raw = path.read_bytes()
    metadata = json.loads(gzip.decompress(raw) if codec == "gzip" else raw)

    assert path.name.endswith(".gz.metadata.json") is (codec == "gzip")
    assert metadata["table-uuid"] == str(table.metadata.table_uuid)
    assert ids(StaticTable.from_metadata(location)) == [1, 2, 3]
    if codec == "none":  # DuckDB needs an option of the scan for a compressed file
        db = duckdb.connect(config={"extension_directory": str(tmp_path)})
        duckdb_client.install(db)
        db.execute("LOAD iceberg")
        id_rows = db.execute(f"SELECT id FROM iceberg_scan('{path}') ORDER BY id").fetchall()
        assert id_rows == [(1,), (2,), (3,)]
