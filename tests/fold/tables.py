"""Tables to fold in tests, rows for them, and the fold in plain Python that Arrow's is held against."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cmp_to_key
from itertools import groupby
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from arco.fold.table import ColumnType, MergeRule, MergeStrategy, StateColumn, StateTable

Row = dict[str, Any]

_NULLS = 0.3

# Several rules side by side, orders of several columns that may be null, values of every kind.
MIXED = StateTable(
    "mixed",
    ("id", "part"),
    (
        *(StateColumn("id"), StateColumn("part", ColumnType.INTEGER)),
        *(StateColumn("status"), StateColumn("error"), StateColumn("labels", ColumnType.TEXTS)),
        *(StateColumn("_attempt", ColumnType.INTEGER), StateColumn("_at", ColumnType.TIME)),
        *(
            StateColumn("origin"),
            StateColumn("inputs", ColumnType.STRINGS),
            StateColumn("_origin_at", ColumnType.TIME),
        ),
        *(StateColumn("latest", ColumnType.TIME), StateColumn("least", ColumnType.INTEGER)),
        *(StateColumn("seen", ColumnType.BOOLEAN), StateColumn("last_word")),
    ),
    (
        MergeRule(MergeStrategy.LAST, ("status", "error", "labels"), ("_attempt", "_at")),
        MergeRule(MergeStrategy.FIRST, ("origin", "inputs"), ("_origin_at",)),
        MergeRule(MergeStrategy.MAX, ("latest",)),
        MergeRule(MergeStrategy.MIN, ("least",)),
        MergeRule(MergeStrategy.MAX, ("seen",)),
        MergeRule(MergeStrategy.MIN, ("last_word",)),
    ),
    ("status", "part"),
    "origin",
)
# The least that a table can be.
BARE = StateTable(
    "bare",
    ("id",),
    (StateColumn("id"), StateColumn("n", ColumnType.INTEGER)),
    (MergeRule(MergeStrategy.MAX, ("n",)),),
    (),
    "id",
)

_VALUES: dict[ColumnType, st.SearchStrategy[Any]] = {
    ColumnType.STRING: st.sampled_from(["", "a", "b", "ä", "z", "\U0001f409"]),
    ColumnType.INTEGER: st.integers(-2, 2) | st.sampled_from([2**63 - 1, -(2**63)]),
    ColumnType.BOOLEAN: st.booleans(),
    ColumnType.TIME: st.sampled_from(
        [datetime(2026, 1, day, 0, 0, 0, day, UTC) for day in (1, 2, 3)]
    ),
    ColumnType.STRINGS: st.lists(st.sampled_from(["x", "y"]), max_size=2),
    ColumnType.BYTES: st.sampled_from([b"", b"\x00", b"a", b"a" * 60, b"a" * 59 + b"\xff"]),
    ColumnType.TEXTS: st.dictionaries(st.sampled_from(["k", "l"]), st.sampled_from(["", "v"])),
}


def generate_rows(
    table: StateTable,
    count: int,
    key: Callable[[ColumnType], Any],
    value: Callable[[ColumnType], Any],
    null: Callable[[], bool],
) -> list[Row]:
    """Rows in which equal orders mean equal values: orders are total by declaration."""
    kinds = {column.name: column.kind for column in table.columns}

    def maybe(name: str) -> Any:
        return None if null() else value(kinds[name])

    values_by_order: dict[object, Row] = {}
    rows = []
    for _ in range(count):
        row = {name: key(kinds[name]) for name in table.key}
        for rule in table.rules:
            order = {name: maybe(name) for name in rule.order}
            row_key = tuple(row[name] for name in table.key)
            order_key: object = (rule, row_key, *order.values()) if rule.order else object()
            if order_key not in values_by_order:
                values_by_order[order_key] = {name: maybe(name) for name in rule.columns}
            row |= order | values_by_order[order_key]
        rows.append(row)
    return rows


@st.composite
def rows_of(draw: st.DrawFn, table: StateTable) -> list[Row]:
    """A few rows, with few different keys."""

    def value(kind: ColumnType) -> Any:
        return draw(_VALUES[kind])

    return generate_rows(table, draw(st.integers(0, 8)), value, value, lambda: draw(st.booleans()))


def random_rows(
    table: StateTable, rng: Random, count: int, *, keys: int = 4, one_key: float = 0.0
) -> list[Row]:
    """Many rows, faster than by drawing them.

    Each column of a key has so many values, and `one_key` is the share of those that are the same one.
    """

    def key(kind: ColumnType) -> Any:
        return _numbered(kind, 0 if rng.random() < one_key else rng.randrange(keys))

    def value(kind: ColumnType) -> Any:
        return _numbered(kind, rng.randrange(rng.choice([2, 4, 1000])))

    return generate_rows(table, count, key, value, lambda: rng.random() < _NULLS)


def _numbered(kind: ColumnType, number: int) -> Any:
    match kind:
        case ColumnType.STRING:
            return f"{number}ä"
        case ColumnType.INTEGER:
            return number - 2
        case ColumnType.BOOLEAN:
            return number % 2 == 0
        case ColumnType.TIME:
            return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=number)
        case ColumnType.BYTES:
            return number.to_bytes(8) * 7
        case ColumnType.STRINGS:
            return ["x", str(number)][: number % 3]
        case ColumnType.TEXTS:
            return {"k": str(number)} if number else {}


def to_arrow(table: StateTable, rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=table.schema)


def to_python(rows: pa.Table) -> list[Row]:
    python_rows: list[Row] = rows.to_pylist(maps_as_pydicts="strict")
    return python_rows


def reference(table: StateTable, rows: Sequence[Row]) -> list[Row]:
    """The fold in plain Python."""
    folded = []
    for _, same in groupby(sorted(rows, key=by(table.key)), key=by(table.key)):
        of_key = list(same)
        result = {name: of_key[0][name] for name in table.key}
        for rule in table.rules:
            names = rule.order or rule.columns
            if rule.keep in (MergeStrategy.LAST, MergeStrategy.MAX):
                chosen = max(of_key, key=by(names))
            else:
                chosen = min(of_key, key=by(names, null_is_high=True))
            result |= {name: chosen[name] for name in (*rule.columns, *rule.order)}
        folded.append({column.name: result[column.name] for column in table.columns})
    return sorted(folded, key=by((*table.sort, *table.key)))


def by(names: Sequence[str], *, null_is_high: bool = False) -> Any:
    def compare(one: Row, other: Row) -> int:
        for name in names:
            a, b = one[name], other[name]
            if a != b:
                if a is None or b is None:
                    return 1 if (a is None) == null_is_high else -1
                return -1 if a < b else 1
        return 0

    return cmp_to_key(compare)
