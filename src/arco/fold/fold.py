"""The fold: rows with the same key become one row, by the merge rules of their table (law 7).

It runs Arrow kernels on whole columns. For each rule one row per key is chosen, and the rule's columns are
taken from it together. Orders are total by declaration, so two rows with the same order are the same row
and it does not matter which one is taken.

Strings are costly to sort and compare, and many rows share values. So large tables are compared by codes:
each distinct value is ranked once, and rows are compared by the ranks. Small tables are sorted directly.

The order of a Tier 2 row is bytes that sort as events outrank each other (P19): the causal number, then the
rank, then the time. The remaining bytes only break ties, so that two events have the same order only if
they are the same event.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, reduce
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from arco.core.errors import Invalid
from arco.fold.table import MergeRule, MergeStrategy, StateTable
from arco.fold.tier2 import OCCURRED

SMALL_ROWS = 2048  # up to here sorting values takes fewer steps than making codes
_MAX_CODE = 1 << 63
_FALSE = pa.array([False], pa.bool_())
_HIGHEST = (MergeStrategy.LAST, MergeStrategy.MAX)

# Column names, and for each key the row that they are taken from.
_Pick = tuple[tuple[str, ...], pa.Array]


def fold(table: StateTable, rows: pa.Table) -> pa.Table:
    """One row for each key, in the order in which files of this table are sorted."""
    rows = conform(table, rows)
    for name in table.key:
        if rows.column(name).null_count:
            raise Invalid(f"a row of {table.name} has no {name}, which is part of its key")
    if rows.num_rows <= 1:
        return rows
    return _take_columns(rows, _in_file_order(table, rows, _pick_rows(table, rows)))


def conform(table: StateTable, rows: pa.Table) -> pa.Table:
    """`rows` with exactly the table's columns: columns that an older file lacks are null."""
    if rows.schema.equals(table.schema):
        return rows
    columns = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in table.schema
    ]
    return pa.table(columns, schema=table.schema)


def retain(table: StateTable, rows: pa.Table, retained_from: datetime | None) -> pa.Table:
    """`rows` without those whose newest event is before `retained_from` (P20).

    The rows must be folded: only then does a row hold the newest time of its key.
    """
    if retained_from is None or OCCURRED not in table.schema.names:
        return rows
    occurred = rows.column(OCCURRED)
    since = pa.scalar(retained_from, occurred.type)
    stays = pc.greater_equal(occurred, since).fill_null(fill_value=True)
    return rows if pc.all(stays).as_py() else rows.filter(stays)


def _pick_rows(table: StateTable, rows: pa.Table) -> list[_Pick]:
    """The winning rows, sorted by key. The key columns are taken with the first rule."""
    groups = KeyGroups.of(rows, table.key)
    if groups.distinct:
        return [(tuple(table.schema.names), groups.at)]
    picks: list[_Pick] = []
    for rule in table.rules:
        names = (*rule.columns, *rule.order, *(() if picks else table.key))
        picks.append((names, winners(table, rule, rows, groups)))
    return picks


def _in_file_order(table: StateTable, rows: pa.Table, picks: list[_Pick]) -> list[_Pick]:
    """The picks in the sort order of files; ties stay sorted by key."""
    if table.key[: len(table.sort)] == table.sort:
        return picks
    picked = {name: at for names, at in picks for name in names}
    labels = pa.table({name: rows.column(name).take(picked[name]) for name in table.sort})
    order = sort_indices(labels, table.sort)
    return [(names, at.take(order)) for names, at in picks]


def _take_columns(rows: pa.Table, picks: list[_Pick]) -> pa.Table:
    if len(picks) == 1:
        return rows.take(picks[0][1]).combine_chunks()
    columns: dict[str, pa.ChunkedArray] = {}
    for names, at in picks:
        columns |= zip(names, rows.select(names).take(at).columns, strict=True)
    ordered = [columns[name] for name in rows.schema.names]
    return pa.table(ordered, schema=rows.schema).combine_chunks()


@dataclass(frozen=True)
class KeyGroups:
    """Row numbers sorted by key; and for each but the last, whether the next row has the same key."""

    at: pa.Array
    same: pa.Array

    @classmethod
    def of(cls, rows: pa.Table, key: Sequence[str]) -> Self:
        """All rows, sorted by key."""
        columns = [_combined(rows, name) for name in key]
        if _is_small(rows):
            at = sort_indices(rows, key)
            return cls(at, reduce(pc.and_, [_equals_next(column.take(at)) for column in columns]))
        codes = encode_ranks(columns)
        at = pc.array_sort_indices(codes)
        return cls(at, _equals_next(codes.take(at)))

    @cached_property
    def distinct(self) -> bool:
        """Whether no two rows have the same key."""
        return not pc.any(self.same).as_py()

    @cached_property
    def starts(self) -> pa.Array:
        """Whether a row is the first of its key."""
        return pc.invert(pa.concat_arrays([_FALSE, self.same]))

    @cached_property
    def ends(self) -> pa.Array:
        """Whether a row is the last of its key."""
        return pc.invert(pa.concat_arrays([self.same, _FALSE]))

    @cached_property
    def shared(self) -> pa.Array:
        """Whether another row has the same key."""
        return pc.invert(pc.and_(self.starts, self.ends))

    @cached_property
    def contested(self) -> "KeyGroups":
        """The rows that share their key with another row."""
        return self.filter(self.shared)

    def filter(self, mask: pa.Array) -> "KeyGroups":
        """The rows for which the mask is true."""
        return KeyGroups(self.at.filter(mask), _equals_next(self._key_numbers.filter(mask)))

    def with_winners(self, winning: pa.Array) -> pa.Array:
        """One row for each key: the winner among the contested rows, or the only row."""
        return pc.replace_with_mask(*self._first_rows, winning)

    @cached_property
    def _key_numbers(self) -> pa.Array:
        return pc.cumulative_sum(self.starts.cast(pa.uint32()))

    @cached_property
    def _first_rows(self) -> tuple[pa.Array, pa.Array]:
        return self.at.filter(self.starts), self.shared.filter(self.starts)


def winners(table: StateTable, rule: MergeRule, rows: pa.Table, groups: KeyGroups) -> pa.Array:
    """The row that wins by a rule, for each key in the order of the keys.

    A null loses against everything but a null. Between equal rows it does not matter which one wins.
    """
    highest = rule.keep in _HIGHEST
    by = rule.order or rule.columns
    if _is_small(rows):
        order = sort_indices(rows, (*table.key, *by), nulls_last=not highest)
        return order.filter(groups.ends if highest else groups.starts)
    values = [_combined(rows, name).take(groups.contested.at) for name in by]
    value = values[0] if len(values) == 1 else encode_ranks(values, nulls_last=not highest)
    return groups.with_winners(_win_by_pairs(groups.contested, value, highest=highest))


def _win_by_pairs(rows: KeyGroups, value: pa.Array, *, highest: bool) -> pa.Array:
    """The winners among rows that all share their key with another.

    Of two neighbours with one key one is removed, all pairs at once, so at most half of the rows of a key
    are left after each step, and nothing but keys is ever sorted.
    """
    wins = _right_wins(value.slice(0, len(value) - 1), value.slice(1), highest=highest)
    left_loses = pa.concat_arrays([pc.and_(rows.same, wins), _FALSE])
    right_loses = pa.concat_arrays([_FALSE, pc.and_not(rows.same, wins)])
    stays = pc.invert(pc.or_(left_loses, right_loses))
    rest = rows.filter(stays)
    if rest.distinct:
        return rest.at
    value = value.filter(stays).filter(rest.shared)
    return rest.with_winners(_win_by_pairs(rest.contested, value, highest=highest))


def _right_wins(left: pa.Array, right: pa.Array, *, highest: bool) -> pa.Array:
    """For each pair, whether the right value wins."""
    if highest:
        return pc.coalesce(pc.greater_equal(right, left), pc.is_null(left))
    return pc.coalesce(pc.less(right, left), pc.is_valid(right))


def _equals_next(values: pa.Array) -> pa.Array:
    """For each value but the last, whether the next one is equal."""
    return pc.equal(values.slice(1), values.slice(0, max(0, len(values) - 1)))


def sort_indices(rows: pa.Table, names: Sequence[str], *, nulls_last: bool = False) -> pa.Array:
    """The row numbers in sorted order. The sort is stable."""
    nulls = "at_end" if nulls_last else "at_start"
    if _is_small(rows):
        return pc.sort_indices(rows, sort_keys=[(name, "ascending", nulls) for name in names])
    columns = [_combined(rows, name) for name in names]
    values = columns[0] if len(columns) == 1 else encode_ranks(columns, nulls_last=nulls_last)
    return pc.array_sort_indices(values, null_placement=nulls)


def encode_ranks(columns: Sequence[pa.Array], *, nulls_last: bool = False) -> pa.Array:
    """One integer for each row that compares as the columns do, the first column first."""
    codes, size = _rank(columns[0], nulls_last=nulls_last)
    for column in columns[1:]:
        ranks, count = _rank(column, nulls_last=nulls_last)
        if size * count > _MAX_CODE:
            codes, size = _rank(codes, nulls_last=nulls_last)
        codes = pc.add(pc.multiply(codes, pa.scalar(count, pa.uint64())), ranks)
        size *= count
    return codes


def _rank(column: pa.Array, *, nulls_last: bool) -> tuple[pa.Array, int]:
    """The rank of each value among the distinct ones, and a number above all ranks."""
    encoded = column.dictionary_encode()
    highest = len(encoded.dictionary) + 1
    ranks = pc.rank(encoded.dictionary).take(encoded.indices)
    if ranks.null_count:
        ranks = ranks.fill_null(pa.scalar(highest if nulls_last else 0, pa.uint64()))
    return ranks, highest + 1


def _is_small(rows: pa.Table) -> bool:
    return bool(rows.num_rows <= SMALL_ROWS)


def _combined(rows: pa.Table, name: str) -> pa.Array:
    """A column in one chunk."""
    column = rows.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


Integers = npt.NDArray[np.int64]
OrderSuffixes = npt.NDArray[np.void]  # of `_SUFFIX`

_ID_BYTES, _DIGEST_BYTES = 26, 8
_SUFFIX = np.dtype(
    [
        ("at", ">u8"),
        ("sequence", ">u8"),
        ("event_id", f"S{_ID_BYTES}"),
        ("digest", f"V{_DIGEST_BYTES}"),
    ]
)
_ORDER = np.dtype([("sticky", "u1"), ("causal", ">u8"), ("rank", "u1"), ("suffix", _SUFFIX)])
_EPOCH = np.uint64(1 << 63)  # so that times before 1970 sort below those after it


def encode_order_suffixes(
    at_us: Integers, sequences: Sequence[int], event_ids: Sequence[str], digests: Sequence[bytes]
) -> OrderSuffixes:
    """The end of the orders of each event, which all columns that the event sets have in common.

    `at_us` is the earlier of when the event occurred and when it was received; a digest is the SHA-256 of
    the content of the event.
    """
    suffixes = np.empty(len(at_us), _SUFFIX)
    suffixes["at"] = at_us.view(np.uint64) + _EPOCH
    suffixes["sequence"] = sequences
    suffixes["event_id"] = [each.encode() for each in event_ids]
    every = np.frombuffer(b"".join(digests), _SUFFIX["digest"])
    suffixes["digest"] = every.reshape(len(suffixes), -1)[:, 0]  # the first bytes of each digest
    return suffixes


def encode_orders(
    suffixes: OrderSuffixes,
    causal: int | Sequence[int] = 0,
    rank: int | Sequence[int] = 0,
    sticky: int | Sequence[int] = 0,
    *,
    beneath: bool | Sequence[bool] = False,
) -> pa.Array:
    """The orders of events.

    `sticky` outranks every `causal`: a cancel outranks all attempts, a published success a cancel.
    `causal` is an attempt, a published version or a generation. An event that is `beneath` sorts below all
    others of its rank whatever their times: a declaration below an observation.
    """
    orders = np.empty(len(suffixes), _ORDER)
    orders["sticky"], orders["causal"] = sticky, causal
    orders["rank"], orders["suffix"] = rank, suffixes
    orders["suffix"]["at"] -= np.where(beneath, _EPOCH, np.uint64(0))
    ends = np.arange(0, orders.nbytes + 1, _ORDER.itemsize, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), len(orders), [None, pa.py_buffer(ends), pa.py_buffer(orders)]
    )
