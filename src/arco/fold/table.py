"""Declarations of state tables: a key, and a merge rule for every other column (P18, P22).

Columns that belong together share one rule and one order, nulls included. The order is stored beside them
in hidden columns because the next fold decides by it again, so no two rules may share an order column. A
status that outranks another has an order that begins with its rank.
"""

import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import pyarrow as pa

from arco.core.errors import Invalid


class ColumnType(Enum):
    """The column types of state tables. Every engine reads them alike."""

    STRING = "string"
    INTEGER = "int64"
    BOOLEAN = "boolean"
    TIME = "timestamp"  # microseconds, UTC
    STRINGS = "list<string>"
    TEXTS = "map<string,string>"
    BYTES = "binary"

    def arrow(self) -> pa.DataType:
        """The Arrow type, in memory and in the file."""
        return _ARROW[self]


_ARROW = {
    ColumnType.STRING: pa.string(),
    ColumnType.INTEGER: pa.int64(),
    ColumnType.BOOLEAN: pa.bool_(),
    ColumnType.TIME: pa.timestamp("us", tz="UTC"),
    ColumnType.STRINGS: pa.list_(pa.string()),
    ColumnType.TEXTS: pa.map_(pa.string(), pa.string()),
    ColumnType.BYTES: pa.binary(),
}


@dataclass(frozen=True)
class StateColumn:
    """One column. A name that begins with an underscore is for the fold and hidden from readers."""

    name: str
    kind: ColumnType = ColumnType.STRING

    @property
    def hidden(self) -> bool:
        return self.name.startswith("_")


def columns(**kinds: ColumnType) -> tuple[StateColumn, ...]:
    """Columns by name, in the order of the arguments."""
    return tuple(StateColumn(name, kind) for name, kind in kinds.items())


STRING, INTEGER, BOOLEAN, TIME, STRINGS, TEXTS, BYTES = ColumnType

_UNSORTABLE = (STRINGS, TEXTS)


class MergeStrategy(Enum):
    """Which of several rows with one key wins."""

    LAST = "last"  # the row highest in the order, nulls included
    FIRST = "first"  # the row lowest in the order: set once
    MAX = "max"  # the largest value
    MIN = "min"  # the smallest value


@dataclass(frozen=True)
class MergeRule:
    """How a group of columns is merged. A row whose order is null does not set them."""

    keep: MergeStrategy
    columns: tuple[str, ...]
    order: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        by_value = self.keep in (MergeStrategy.MAX, MergeStrategy.MIN)
        if by_value and (self.order or len(self.columns) != 1):
            raise Invalid(f"{self.keep.value} merges one column by its own value")
        if not by_value and not self.order:
            raise Invalid(f"{self.keep.value} needs an order to merge {self.columns} by")


@dataclass(frozen=True)
class BucketSpec:
    """Rows are distributed over `count` files by a hash of one column."""

    column: str
    count: int

    def of(self, value: str) -> int:
        """The bucket of a value: CRC-32 of its UTF-8 bytes, so that any engine can compute it."""
        return zlib.crc32(value.encode()) % self.count


@dataclass(frozen=True)
class StateTable:
    """A state table."""

    name: str
    key: tuple[str, ...]
    columns: tuple[StateColumn, ...]
    rules: tuple[MergeRule, ...]
    parent: tuple[str, ...]  # rows are listed by these,
    label: str  # and within them by this one
    bucket: BucketSpec | None = None

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        ruled = [name for rule in self.rules for name in (*rule.columns, *rule.order)]
        twice = [name for name, times in Counter([*self.key, *ruled]).items() if times > 1]
        if twice:
            raise Invalid(f"{self.name}: {twice} has more than one merge rule")
        if sorted(names) != sorted([*self.key, *ruled]):
            odd = set(names) ^ {*self.key, *ruled}
            raise Invalid(f"{self.name}: {sorted(odd)} needs both a declaration and a merge rule")
        if self.bucket is not None and self.bucket.column not in self.key:
            raise Invalid(f"{self.name}: the bucket column must be part of the key")
        if not self.rules:
            raise Invalid(f"{self.name}: a state table needs at least one merge rule")
        self._check_sortable()

    def _check_sortable(self) -> None:
        """Rows are sorted by keys, file order and merge orders; lists and maps cannot be sorted."""
        sortable = {column.name for column in self.columns if column.kind not in _UNSORTABLE}
        sort_columns = {*self.key, *self.sort}
        for rule in self.rules:
            sort_columns |= {*(rule.order or rule.columns)}
        if sort_columns - sortable:
            raise Invalid(
                f"{self.name}: rows cannot be sorted by {sorted(sort_columns - sortable)}"
            )

    @property
    def sort(self) -> tuple[str, ...]:
        """The columns that rows in a file are sorted by: those that readers filter by."""
        return (*self.parent, self.label)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of a file, including hidden ones."""
        return pa.schema([pa.field(each.name, each.kind.arrow()) for each in self.columns])

    @cached_property
    def empty(self) -> pa.Table:
        """No rows, with the columns of a file: to concatenate with as many files as there are."""
        return self.schema.empty_table()

    @cached_property
    def visible(self) -> tuple[str, ...]:
        """The columns that readers see."""
        return tuple(column.name for column in self.columns if not column.hidden)

    def bucket_of(self, value: str) -> int:
        """The bucket of rows with this value in the bucket column; 0 for a table without buckets."""
        return 0 if self.bucket is None else self.bucket.of(value)

    def buckets_in(self, rows: pa.Table) -> tuple[int, ...]:
        """The sorted buckets that these rows belong to."""
        if self.bucket is None:
            return (0,)
        values = rows.column(self.bucket.column).unique().to_pylist()
        return tuple(sorted({self.bucket.of(value) for value in values}))

    def buckets_of(self, rows: pa.Table) -> list[int]:
        """The bucket of each row."""
        if self.bucket is None:
            return [0] * rows.num_rows
        values = rows.column(self.bucket.column).to_pylist()
        buckets = {value: self.bucket.of(value) for value in set(values)}
        return [buckets[value] for value in values]


def tables_by_name(tables: Iterable[StateTable]) -> dict[str, StateTable]:
    """Tables keyed by name."""
    return {table.name: table for table in tables}
