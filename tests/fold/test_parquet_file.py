"""Combined files: rows of several tables in one Parquet file, which every engine can read."""

import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from arco.fold.fold import conform
from arco.fold.parquet_file import decode, encode_combined
from arco.fold.tier1 import TIER1
from tests.fold.test_golden import GOLDEN, read_value

# Written once and never again: every later version must read it.
COMBINED = GOLDEN / "combined" / "catalog.parquet"
NAMES = ("tables", "columns", "objects", "schema_versions")


def golden_rows(name: str) -> list[dict[str, Any]]:
    """The rows of a table in the golden combined file."""
    rows = json.loads((GOLDEN / f"{name}.json").read_text())
    columns = TIER1[name].columns
    return [
        {each.name: read_value(each.kind, row.get(each.name)) for each in columns} for row in rows
    ]


def as_table(name: str) -> pa.Table:
    return pa.Table.from_pylist(golden_rows(name), schema=TIER1[name].schema)


def read(raw: bytes, name: str) -> list[dict[str, Any]]:
    rows = conform(TIER1[name], decode(TIER1[name], raw, is_combined=True))
    found: list[dict[str, Any]] = rows.to_pylist(maps_as_pydicts="strict")
    return found


@pytest.mark.parametrize("name", NAMES)
def test_each_table_reads_its_own_rows(name: str) -> None:
    raw = encode_combined(TIER1, {each: as_table(each) for each in NAMES})
    assert read(raw, name) == golden_rows(name)
    alone = encode_combined(TIER1, {name: as_table(name)})
    assert read(alone, name) == golden_rows(name)


@pytest.mark.parametrize("name", NAMES)
def test_an_old_combined_file_has_the_rows_that_were_put_into_it(name: str) -> None:
    assert read(COMBINED.read_bytes(), name) == golden_rows(name)


def test_many_rows_are_compressed_and_read_alike() -> None:
    rows = pa.concat_tables([as_table("objects")] * 100)
    raw = encode_combined(TIER1, {"tables": as_table("tables"), "objects": rows})
    assert read(raw, "objects") == golden_rows("objects") * 100
    assert len(raw) < rows.nbytes


def test_a_table_without_rows_in_the_file_is_an_error() -> None:
    raw = encode_combined(TIER1, {"tables": as_table("tables")})
    with pytest.raises(pa.ArrowException, match="no rows of columns"):
        decode(TIER1["columns"], raw, is_combined=True)


def test_other_engines_read_the_rows_of_a_table(tmp_path: Path) -> None:
    file = tmp_path / "combined.parquet"
    file.write_bytes(encode_combined(TIER1, {each: as_table(each) for each in NAMES}))
    query = "SELECT unnest(tables) FROM read_parquet(?) WHERE tables IS NOT NULL"
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        fetched = connection.execute(query, [str(file)]).to_arrow_table()
    assert fetched.to_pylist(maps_as_pydicts="strict") == golden_rows("tables")
