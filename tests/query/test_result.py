import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from arco.core.errors import Invalid
from arco.query.result import from_arrow, to_arrow, to_json
from tests.query.workspace import workspace

NOON = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)


def _one(value: object, kind: pa.DataType) -> Any:
    [[cell]] = json.loads(to_json(pa.table({"x": pa.array([value], kind)})))["rows"]
    return cell


@pytest.mark.parametrize(
    ("kind", "value", "written"),
    [
        (pa.timestamp("us", "UTC"), NOON, "2026-03-01T12:00:00.250000Z"),
        (pa.timestamp("ns", "UTC"), NOON, "2026-03-01T12:00:00.250000Z"),
        (pa.timestamp("us"), NOON.replace(tzinfo=None), "2026-03-01T12:00:00.250000"),
        (pa.list_(pa.timestamp("ns", "UTC")), [NOON], ["2026-03-01T12:00:00.250000Z"]),
        (pa.date32(), date(2026, 3, 1), "2026-03-01"),
        (pa.time64("ns"), time(1, 2, 3), "01:02:03"),
        (pa.duration("us"), timedelta(seconds=90), "PT90S"),
        (pa.map_(pa.string(), pa.string()), [("k", "v")], {"k": "v"}),
        (pa.map_(pa.int64(), pa.binary()), [(1, b"v")], {"1": "dg=="}),
        (pa.map_(pa.string(), pa.string()), [], {}),
        (pa.int64(), 2**63 - 1, 2**63 - 1),
        (pa.uint64(), 2**64 - 1, 2**64 - 1),
        (pa.binary(), b"\x00\xff", "AP8="),
        (pa.list_(pa.binary()), [b"\x00\xff"], ["AP8="]),
        (pa.decimal128(20, 2), Decimal("12345678901234567.10"), "12345678901234567.10"),
        (pa.float64(), float("nan"), None),
        (pa.float64(), float("inf"), None),
        (pa.list_(pa.float64()), [1.5, float("-inf")], [1.5, None]),
        (pa.string(), "ü\n\u2028", "ü\n\u2028"),
        (pa.string_view(), "view", "view"),
        (pa.list_(pa.string_view()), ["view"], ["view"]),
        (pa.struct([("a", pa.string_view())]), {"a": "b"}, {"a": "b"}),
        (pa.dictionary(pa.int8(), pa.string()), "word", "word"),
        (pa.bool_(), True, True),
        (pa.null(), None, None),
        (pa.string(), None, None),
    ],
)
def test_every_value_has_one_way_to_be_written(
    kind: pa.DataType, value: object, written: object
) -> None:
    assert _one(value, kind) == written


def test_columns_are_named_with_their_types_even_without_rows() -> None:
    table = pa.schema([("a", pa.int64()), ("b", pa.list_(pa.string()))]).empty_table()
    assert json.loads(to_json(table)) == {
        "columns": [
            {"name": "a", "type": "int64"},
            {"name": "b", "type": "list<item: string>"},
        ],
        "rows": [],
    }


def test_two_columns_of_one_name_are_both_written() -> None:
    table = pa.table([[1], [2]], names=["x", "x"])
    assert json.loads(to_json(table))["rows"] == [[1, 2]]


def test_what_python_cannot_hold_is_refused_with_a_way_out() -> None:
    far = pa.array([2**60], pa.int64()).cast(pa.timestamp("us", "UTC"))
    with pytest.raises(Invalid, match="cast it to text"):
        to_json(pa.table({"x": far}))


def test_an_arrow_stream_gives_the_table_back() -> None:
    table = pa.table(
        {"a": [1, 2], "m": pa.array([[("k", "v")], None], pa.map_("string", "string"))}
    )
    assert from_arrow(to_arrow(table)).equals(table)
    empty = table.schema.empty_table()
    assert from_arrow(to_arrow(empty)).schema == table.schema


async def test_results_of_queries_are_plain_whatever_the_engine_computes_with() -> None:
    async with workspace() as space:
        result = await space.engine.query(
            "SELECT now() AS n, arrow_cast('v', 'Utf8View') AS v, make_array('a') AS l, "
            "arrow_cast('d', 'Dictionary(Int8, Utf8)') AS d, INTERVAL '1 day' AS i, "
            "CAST(1 AS DECIMAL(10, 2)) AS c, named_struct('a', 1) AS s, X'00ff' AS b, "
            "MAP {'k': 1} AS m, CAST('nan' AS DOUBLE) AS f, DATE '2026-01-01' AS t"
        )
        assert result.schema.field("n").type == pa.timestamp("us", "+00:00")
        for name in ("v", "d"):
            assert result.schema.field(name).type == pa.string()
        [row] = json.loads(to_json(result))["rows"]
        assert row[0].endswith("Z")
        assert row[1:4] == ["v", ["a"], "d"]
        assert row[5:] == ["1.00", {"a": 1}, "AP8=", {"k": 1}, None, "2026-01-01"]
