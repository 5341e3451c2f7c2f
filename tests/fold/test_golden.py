"""Files that were published once are read for ever. The files here are never rewritten: a new column
gets a second file, so that the one without it stays readable."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arco.fold.fold import conform, fold
from arco.fold.table import ColumnType, StateTable, tables_by_name
from arco.fold.tier1 import TIER1
from arco.fold.tier2 import TIER2

TABLES = [*TIER1.values(), *(table for domain in TIER2.values() for table in domain.values())]
GOLDEN = Path(__file__).parent / "golden"

Rows = list[dict[str, Any]]


class Golden(NamedTuple):
    """A file of a table, and what is in it. The first is called like its table, the second `tables.2`."""

    table: StateTable
    file: Path

    def stored(self) -> pa.Table:
        return pq.read_table(self.file)


def all_golden() -> list[Golden]:
    tables = tables_by_name(TABLES)
    files = sorted(GOLDEN.glob("*.parquet"))
    return [Golden(tables[file.name.split(".")[0]], file) for file in files]


def expected(golden: Golden) -> Rows:
    """The rows that were written, with what did not exist at that time as null."""
    rows: Rows = json.loads(golden.file.with_suffix(".json").read_text())
    columns = golden.table.columns
    return [
        {each.name: read_value(each.kind, row.get(each.name)) for each in columns} for row in rows
    ]


@pytest.fixture(params=all_golden(), ids=lambda golden: golden.file.stem)
def golden(request: pytest.FixtureRequest) -> Golden:
    golden_file: Golden = request.param
    return golden_file


def test_every_column_of_every_table_is_in_some_old_file() -> None:
    stored_columns = {
        (golden.table.name, name)
        for golden in all_golden()
        for name in golden.stored().schema.names
    }
    assert stored_columns == {(table.name, name) for table in TABLES for name in table.schema.names}


def test_an_old_file_has_the_rows_that_were_put_into_it(golden: Golden) -> None:
    rows = conform(golden.table, golden.stored())
    assert rows.to_pylist(maps_as_pydicts="strict") == expected(golden)
    assert len(expected(golden)) >= 2


def test_folding_an_old_file_leaves_it_as_it_is(golden: Golden) -> None:
    rows = conform(golden.table, golden.stored())
    assert fold(golden.table, rows).equals(rows)
    assert fold(golden.table, pa.concat_tables([rows, rows])).equals(rows)


def test_no_column_was_ever_taken_away_or_given_another_type(golden: Golden) -> None:
    today = {field.name: field.type for field in golden.table.schema}
    then = {field.name: _plain(field.type) for field in golden.stored().schema}
    assert then.keys() <= today.keys()
    assert then == {name: today[name] for name in then}


def test_other_engines_read_the_same(golden: Golden) -> None:
    schema = golden.stored().schema
    times = {field.name for field in schema if pa.types.is_timestamp(field.type)}
    expressions = [
        f'make_timestamp(epoch_us("{n}"))' if n in times else f'"{n}"' for n in schema.names
    ]
    with duckdb.connect() as connection:
        query = f"SELECT {', '.join(expressions)} FROM read_parquet(?)"
        fetched = connection.execute(query, [str(golden.file)]).fetchall()
    rows = [dict(zip(schema.names, row, strict=True)) for row in fetched]
    for row in rows:
        for name in times:
            row[name] = row[name] and row[name].replace(tzinfo=UTC)
    assert rows == [{name: row[name] for name in schema.names} for row in expected(golden)]


def read_value(kind: ColumnType, value: Any) -> Any:
    """A value as it stands in JSON: bytes in hex, times in words."""
    if value is not None and kind is ColumnType.TIME:
        return datetime.fromisoformat(value)
    return bytes.fromhex(value) if value is not None and kind is ColumnType.BYTES else value


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type without what a file calls the elements of a list."""
    return pa.list_(kind.value_type) if pa.types.is_list(kind) else kind
