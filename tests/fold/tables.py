"""Tables to fold in tests, rows for them, and the fold in plain Python that Arrow's is held against."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cmp_to_key
from itertools import groupby
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from arco.fold.column import Column, Kind
from arco.fold.table import Keep, Rule, Table

Row = dict[str, Any]

_NULLS = 0.3

# Several rules side by side, orders of several columns that may be null, values of every kind.
MIXED = Table(
    "mixed",
    ("id", "part"),
    (
        *(Column("id"), Column("part", Kind.INTEGER)),
        *(Column("status"), Column("error"), Column("labels", Kind.TEXTS)),
        *(Column("_attempt", Kind.INTEGER), Column("_at", Kind.TIME)),
        *(Column("origin"), Column("inputs", Kind.STRINGS), Column("_origin_at", Kind.TIME)),
        *(Column("latest", Kind.TIME), Column("least", Kind.INTEGER)),
        *(Column("seen", Kind.BOOLEAN), Column("last_word")),
    ),
    (
        Rule(Keep.LAST, ("status", "error", "labels"), ("_attempt", "_at")),
        Rule(Keep.FIRST, ("origin", "inputs"), ("_origin_at",)),
        Rule(Keep.MAX, ("latest",)),
        Rule(Keep.MIN, ("least",)),
        Rule(Keep.MAX, ("seen",)),
        Rule(Keep.MIN, ("last_word",)),
    ),
    ("status", "part"),
    "origin",
)
# The least that a table can be.
BARE = Table(
    "bare", ("id",), (Column("id"), Column("n", Kind.INTEGER)), (Rule(Keep.MAX, ("n",)),), (), "id"
)

_VALUES: dict[Kind, st.SearchStrategy[Any]] = {
    Kind.STRING: st.sampled_from(["", "a", "b", "ä", "z", "\U0001f409"]),
    Kind.INTEGER: st.integers(-2, 2) | st.sampled_from([2**63 - 1, -(2**63)]),
    Kind.BOOLEAN: st.booleans(),
    Kind.TIME: st.sampled_from([datetime(2026, 1, day, 0, 0, 0, day, UTC) for day in (1, 2, 3)]),
    Kind.STRINGS: st.lists(st.sampled_from(["x", "y"]), max_size=2),
    Kind.BYTES: st.sampled_from([b"", b"\x00", b"a", b"a" * 60, b"a" * 59 + b"\xff"]),
    Kind.TEXTS: st.dictionaries(st.sampled_from(["k", "l"]), st.sampled_from(["", "v"])),
}


def told(
    table: Table,
    count: int,
    key: Callable[[Kind], Any],
    value: Callable[[Kind], Any],
    null: Callable[[], bool],
) -> list[Row]:
    """Rows in which equal orders mean equal values: orders are total by declaration."""
    kinds = {column.name: column.kind for column in table.columns}

    def maybe(name: str) -> Any:
        return None if null() else value(kinds[name])

    said: dict[object, Row] = {}
    rows = []
    for _ in range(count):
        row = {name: key(kinds[name]) for name in table.key}
        for rule in table.rules:
            order = {name: maybe(name) for name in rule.order}
            of = tuple(row[name] for name in table.key)
            place: object = (rule, of, *order.values()) if rule.order else object()
            if place not in said:
                said[place] = {name: maybe(name) for name in rule.columns}
            row |= order | said[place]
        rows.append(row)
    return rows


@st.composite
def rows_of(draw: st.DrawFn, table: Table) -> list[Row]:
    """A few rows, with few different keys."""

    def value(kind: Kind) -> Any:
        return draw(_VALUES[kind])

    return told(table, draw(st.integers(0, 8)), value, value, lambda: draw(st.booleans()))


def random_rows(
    table: Table, rng: Random, count: int, *, keys: int = 4, one_key: float = 0.0
) -> list[Row]:
    """Many rows, faster than by drawing them.

    Each column of a key has so many values, and `one_key` is the share of those that are the same one.
    """

    def key(kind: Kind) -> Any:
        return _numbered(kind, 0 if rng.random() < one_key else rng.randrange(keys))

    def value(kind: Kind) -> Any:
        return _numbered(kind, rng.randrange(rng.choice([2, 4, 1000])))

    return told(table, count, key, value, lambda: rng.random() < _NULLS)


def _numbered(kind: Kind, number: int) -> Any:
    match kind:
        case Kind.STRING:
            return f"{number}ä"
        case Kind.INTEGER:
            return number - 2
        case Kind.BOOLEAN:
            return number % 2 == 0
        case Kind.TIME:
            return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=number)
        case Kind.BYTES:
            return number.to_bytes(8) * 7
        case Kind.STRINGS:
            return ["x", str(number)][: number % 3]
        case Kind.TEXTS:
            return {"k": str(number)} if number else {}


def to_arrow(table: Table, rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=table.schema)


def to_python(rows: pa.Table) -> list[Row]:
    found: list[Row] = rows.to_pylist(maps_as_pydicts="strict")
    return found


def reference(table: Table, rows: Sequence[Row]) -> list[Row]:
    """The fold as anybody would write it down."""
    folded = []
    for _, same in groupby(sorted(rows, key=by(table.key)), key=by(table.key)):
        of_key = list(same)
        result = {name: of_key[0][name] for name in table.key}
        for rule in table.rules:
            names = rule.order or rule.columns
            if rule.keep in (Keep.LAST, Keep.MAX):
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
