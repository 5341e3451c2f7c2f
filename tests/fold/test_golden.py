"""Files that were published once are read for ever. The files here are never written anew: a new column
gets a second file, so that the one without it stays readable."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arco.fold.column import Kind
from arco.fold.fold import conform, fold
from arco.fold.table import Table
from arco.fold.tier1 import TIER1

GOLDEN = Path(__file__).parent / "golden"

Rows = list[dict[str, Any]]


def expected(table: Table) -> Rows:
    """The rows that were written, with what did not exist at that time as null."""
    times = {column.name for column in table.columns if column.kind is Kind.TIME}
    rows: Rows = json.loads((GOLDEN / f"{table.name}.json").read_text())
    for row in rows:
        for name in times & row.keys():
            row[name] = None if row[name] is None else datetime.fromisoformat(row[name])
    return [{name: row.get(name) for name in table.schema.names} for row in rows]


def stored(table: Table) -> pa.Table:
    return pq.read_table(GOLDEN / f"{table.name}.parquet")


@pytest.fixture(params=TIER1.values(), ids=lambda table: table.name)
def table(request: pytest.FixtureRequest) -> Table:
    found: Table = request.param
    return found


def test_an_old_file_has_the_rows_that_were_put_into_it(table: Table) -> None:
    rows = conform(table, stored(table))
    assert rows.to_pylist(maps_as_pydicts="strict") == expected(table)
    assert len(expected(table)) >= 2


def test_folding_an_old_file_leaves_it_as_it_is(table: Table) -> None:
    rows = conform(table, stored(table))
    assert fold(table, rows).equals(rows)
    assert fold(table, pa.concat_tables([rows, rows])).equals(rows)


def test_no_column_was_ever_taken_away_or_given_another_type(table: Table) -> None:
    today = {field.name: field.type for field in table.schema}
    then = {field.name: _plain(field.type) for field in stored(table).schema}
    assert then.keys() <= today.keys()
    assert then == {name: today[name] for name in then}


def test_other_engines_read_the_same(table: Table) -> None:
    schema = stored(table).schema
    times = {field.name for field in schema if pa.types.is_timestamp(field.type)}
    wanted = [f'make_timestamp(epoch_us("{n}"))' if n in times else f'"{n}"' for n in schema.names]
    with duckdb.connect() as connection:
        query = f"SELECT {', '.join(wanted)} FROM read_parquet(?)"
        found = connection.execute(query, [str(GOLDEN / f"{table.name}.parquet")]).fetchall()
    rows = [dict(zip(schema.names, row, strict=True)) for row in found]
    for row in rows:
        for name in times:
            row[name] = row[name] and row[name].replace(tzinfo=UTC)
    assert rows == [{name: row[name] for name in schema.names} for row in expected(table)]


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type without what a file calls the elements of a list."""
    return pa.list_(kind.value_type) if pa.types.is_list(kind) else kind
