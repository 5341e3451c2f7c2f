"""Pruning: which files of a state table can hold the rows that a query wants. The others are not read.

Filters are reduced to spans: the values of a text column that can satisfy them. Spans may allow too much,
never too little. They are sorted and disjoint, both ends are included, and an end of None is open.

A file records its buckets, and the first and last value of its sort column. Both are columns of the key, so
all rows of one key are in files that are skipped together.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from arco.catalog.manifest import FileRef
from arco.query.system_tables import TableInput

# More spans than these become one, from the lowest to the highest.
_MAX_SPANS = 20_000


class Span(msgspec.Struct, frozen=True, array_like=True):
    """All texts from `low` to `high`, ordered by code points, which is the order of their UTF-8 bytes."""

    low: str | None = None
    high: str | None = None

    @property
    def is_point(self) -> bool:
        return self.low is not None and self.low == self.high

    def overlaps(self, low: str, high: str) -> bool:
        """Whether the span contains a value from `low` to `high`."""
        return (self.low is None or self.low <= high) and (self.high is None or low <= self.high)


Spans = tuple[Span, ...]

ALL_VALUES: Spans = (Span(),)


def point_spans(values: Iterable[str]) -> Spans:
    """Spans of exactly these values."""
    return _limit([Span(value, value) for value in sorted(set(values))])


def union(one: Spans, other: Spans) -> Spans:
    """The values that satisfy one of two filters."""
    merged: list[Span] = []
    for span in sorted((*one, *other), key=lambda span: (span.low is not None, span.low or "")):
        if merged and _meet(merged[-1], span):
            merged[-1] = Span(merged[-1].low, _higher(merged[-1].high, span.high))
        else:
            merged.append(span)
    return _limit(merged)


def intersect(one: Spans, other: Spans) -> Spans:
    """The values that satisfy both of two filters."""
    spans: list[Span] = []
    at_one = at_other = 0
    while at_one < len(one) and at_other < len(other):
        first, second = one[at_one], other[at_other]
        if _meet(first, second) and _meet(second, first):
            spans.append(_overlap(first, second))
        if first.high is not None and (second.high is None or first.high <= second.high):
            at_one += 1
        else:
            at_other += 1
    return _limit(spans)


def overlaps_range(spans: Sequence[Span], low: str, high: str) -> bool:
    """Whether a value from `low` to `high` can satisfy the filter."""
    at = bisect_left(spans, True, key=lambda span: span.high is None or span.high >= low)
    return at < len(spans) and spans[at].overlaps(low, high)


def _meet(earlier: Span, later: Span) -> bool:
    """Whether `later` starts before `earlier` ends."""
    return earlier.high is None or later.low is None or later.low <= earlier.high


def _overlap(one: Span, other: Span) -> Span:
    lows = [span.low for span in (one, other) if span.low is not None]
    highs = [span.high for span in (one, other) if span.high is not None]
    return Span(max(lows, default=None), min(highs, default=None))


def _higher(one: str | None, other: str | None) -> str | None:
    return None if one is None or other is None else max(one, other)


def _limit(spans: Sequence[Span]) -> Spans:
    if len(spans) <= _MAX_SPANS:
        return tuple(spans)
    return (Span(spans[0].low, spans[-1].high),)


WantedValues = Mapping[str, Spans]  # by column

_BY_BUCKET, _BY_RANGE = "bucket", "range"


@dataclass(frozen=True)
class PrunedFiles:
    """The files of a state table to read, and how many are skipped for which reason."""

    files: tuple[FileRef, ...]
    by_bucket: int = 0
    by_range: int = 0

    @property
    def is_unpruned(self) -> bool:
        return not self.by_bucket and not self.by_range


def prune(
    wanted: Sequence[tuple[TableInput, WantedValues]], files: Sequence[FileRef]
) -> PrunedFiles:
    """The files of a state table that some scan of a query needs."""
    tests = [_ScanTest(table_input, each) for table_input, each in wanted]
    kept: list[FileRef] = []
    skipped = {_BY_BUCKET: 0, _BY_RANGE: 0}
    for ref in files:
        reasons = [test.reason(ref) for test in tests]
        if None in reasons or not reasons:
            kept.append(ref)
        else:
            skipped[_BY_RANGE if _BY_RANGE in reasons else _BY_BUCKET] += 1
    return PrunedFiles(tuple(kept), skipped[_BY_BUCKET], skipped[_BY_RANGE])


class _ScanTest:
    """Whether one scan of a query needs a file."""

    def __init__(self, table_input: TableInput, wanted: WantedValues) -> None:
        table = table_input.state.table
        usable = {
            column: spans
            for column, spans in wanted.items()
            if column in table_input.filter_columns
        }
        self._range = usable.get(table.sort[0])
        self._buckets: frozenset[int] | None = None
        if table.bucket is not None and table.bucket.column in usable:
            spans = usable[table.bucket.column]
            if all(span.is_point for span in spans):
                values = [span.low for span in spans if span.low is not None]
                self._buckets = frozenset(map(table.bucket.of, values))

    def reason(self, ref: FileRef) -> str | None:
        """Why the scan does not need a file; None if it does."""
        if self._buckets is not None and self._buckets.isdisjoint(ref.buckets):
            return _BY_BUCKET
        if self._range is not None and ref.low and ref.high:
            return None if overlaps_range(self._range, ref.low[0], ref.high[0]) else _BY_RANGE
        return None
