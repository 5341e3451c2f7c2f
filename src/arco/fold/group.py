"""Groups: rows laid by their keys, so that those with one key are neighbours."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from arco.fold.code import coded, few, sort, whole

_NO = pa.array([False], pa.bool_())


@dataclass(frozen=True)
class Groups:
    """Which rows, by their keys; and of each but the last, whether the next one has the same key."""

    at: pa.Array
    same: pa.Array

    @classmethod
    def of(cls, rows: pa.Table, key: Sequence[str]) -> Self:
        """All rows, in the order of the keys."""
        columns = [whole(rows, name) for name in key]
        if few(rows):
            at = sort(rows, key)
            return cls(at, reduce(pc.and_, [_same(column.take(at)) for column in columns]))
        codes = coded(columns)
        at = pc.array_sort_indices(codes)
        return cls(at, _same(codes.take(at)))

    @cached_property
    def distinct(self) -> bool:
        """Whether no two rows have the same key."""
        return not pc.any(self.same).as_py()

    @cached_property
    def starts(self) -> pa.Array:
        """Whether a row is the first of its key."""
        return pc.invert(pa.concat_arrays([_NO, self.same]))

    @cached_property
    def ends(self) -> pa.Array:
        """Whether a row is the last of its key."""
        return pc.invert(pa.concat_arrays([self.same, _NO]))

    @cached_property
    def rivals(self) -> pa.Array:
        """Whether another row has the same key."""
        return pc.invert(pc.and_(self.starts, self.ends))

    @cached_property
    def contest(self) -> "Groups":
        """The rows that have rivals."""
        return self.only(self.rivals)

    def only(self, mask: pa.Array) -> "Groups":
        """The rows for which the mask is true."""
        return Groups(self.at.filter(mask), _same(self._numbers.filter(mask)))

    def settled(self, winners: pa.Array) -> pa.Array:
        """One row for each key: the winner of the contest, or the only one there is."""
        return pc.replace_with_mask(*self._settled, winners)

    @cached_property
    def _numbers(self) -> pa.Array:
        """The number of each row's key."""
        return pc.cumulative_sum(self.starts.cast(pa.uint32()))

    @cached_property
    def _settled(self) -> tuple[pa.Array, pa.Array]:
        return self.at.filter(self.starts), self.rivals.filter(self.starts)


def _same(values: pa.Array) -> pa.Array:
    """Of each value but the last, whether the next one is the same."""
    return pc.equal(values.slice(1), values.slice(0, max(0, len(values) - 1)))
