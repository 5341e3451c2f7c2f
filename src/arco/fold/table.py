"""Declarations: a table of state is a key, and for every other column the rule that merges it (P18, P22).

Columns that belong together are one rule decided by one order, nulls included. The order is kept beside
them in hidden columns of its own, because the next fold must decide by it again; so no two rules may
share an order column. A status that outranks another is an order that begins with its rank.
"""

import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import pyarrow as pa

from arco.core.errors import Invalid
from arco.fold.column import Column, Kind

_UNORDERED = (Kind.STRINGS, Kind.TEXTS)


class Keep(Enum):
    """Which of several rows with one key decides."""

    LAST = "last"  # the row highest in the order, nulls included
    FIRST = "first"  # the row lowest in the order: set once
    MAX = "max"  # the largest value
    MIN = "min"  # the smallest value


@dataclass(frozen=True)
class Rule:
    """How some columns are merged. A row whose order is null says nothing about them."""

    keep: Keep
    columns: tuple[str, ...]
    order: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        by_value = self.keep in (Keep.MAX, Keep.MIN)
        if by_value and (self.order or len(self.columns) != 1):
            raise Invalid(f"{self.keep.value} merges one column by its own value")
        if not by_value and not self.order:
            raise Invalid(f"{self.keep.value} needs an order to decide {self.columns} by")


@dataclass(frozen=True)
class Bucket:
    """Rows are spread over `count` files by a hash of one column."""

    column: str
    count: int

    def of(self, value: str) -> int:
        """The bucket of a value: CRC-32 of its UTF-8 bytes, so that any engine can compute it."""
        return zlib.crc32(value.encode()) % self.count


@dataclass(frozen=True)
class Table:
    """A table of state."""

    name: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    rules: tuple[Rule, ...]
    parent: tuple[str, ...]  # rows are listed by these,
    label: str  # and within them by this one
    bucket: Bucket | None = None

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        ruled = [name for rule in self.rules for name in (*rule.columns, *rule.order)]
        twice = [name for name, times in Counter([*self.key, *ruled]).items() if times > 1]
        if twice:
            raise Invalid(f"{self.name}: {twice} is decided twice")
        if sorted(names) != sorted([*self.key, *ruled]):
            odd = set(names) ^ {*self.key, *ruled}
            raise Invalid(f"{self.name}: {sorted(odd)} is declared or decided, not both")
        if self.bucket is not None and self.bucket.column not in self.key:
            raise Invalid(f"{self.name}: a row's bucket must follow from its key")
        if not self.rules:
            raise Invalid(f"{self.name}: without a rule there is nothing to merge")
        self._refuse_unsorted()

    def _refuse_unsorted(self) -> None:
        """Keys, places and all that decides is sorted by, and lists and maps have no order."""
        ordered = {column.name for column in self.columns if column.kind not in _UNORDERED}
        wanted = {*self.key, *self.sort}
        for rule in self.rules:
            wanted |= {*(rule.order or rule.columns)}
        if wanted - ordered:
            raise Invalid(f"{self.name}: nothing can be sorted by {sorted(wanted - ordered)}")

    @property
    def sort(self) -> tuple[str, ...]:
        """The order of rows in a file: what readers filter by."""
        return (*self.parent, self.label)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns as they lie in a file, hidden ones included."""
        return pa.schema([pa.field(each.name, each.kind.arrow()) for each in self.columns])

    @cached_property
    def visible(self) -> tuple[str, ...]:
        """The columns that readers see."""
        return tuple(column.name for column in self.columns if not column.hidden)

    def bucket_of(self, value: str) -> int:
        """The bucket of the rows with this value in the bucket's column; 0 if there is one file."""
        return 0 if self.bucket is None else self.bucket.of(value)

    def buckets_in(self, rows: pa.Table) -> tuple[int, ...]:
        """The buckets that have some of these rows, in their order."""
        if self.bucket is None:
            return (0,)
        values = rows.column(self.bucket.column).unique().to_pylist()
        return tuple(sorted({self.bucket.of(value) for value in values}))

    def buckets_of(self, rows: pa.Table) -> list[int]:
        """The bucket of each row."""
        if self.bucket is None:
            return [0] * rows.num_rows
        values = rows.column(self.bucket.column).to_pylist()
        known = {value: self.bucket.of(value) for value in set(values)}
        return [known[value] for value in values]


def by_name(tables: Iterable[Table]) -> dict[str, Table]:
    """The tables under their names."""
    return {table.name: table for table in tables}
