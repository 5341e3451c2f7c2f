"""Pruning: which files of a table can hold rows that a query asks for. The others are not even read.

A file says which buckets it has rows of, and the first and the last value that it is sorted by. Both are
of columns of the key only, so all that is known of one key is in files that are passed over together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from arco.catalog.manifest import FileRef
from arco.query.needs import Need
from arco.query.spans import Spans, reaches

Wanted = Mapping[str, Spans]

_BY_BUCKET, _BY_RANGE = "bucket", "range"


@dataclass(frozen=True)
class Pruned:
    """The files to read of a table of state, and how many need not be."""

    files: tuple[FileRef, ...]
    by_bucket: int = 0
    by_range: int = 0

    @property
    def is_whole(self) -> bool:
        return not self.by_bucket and not self.by_range


def prune(wanted: Sequence[tuple[Need, Wanted]], files: Sequence[FileRef]) -> Pruned:
    """The files that some place of a query needs, of those that a snapshot has of one table."""
    tests = [_Test(need, each) for need, each in wanted]
    kept: list[FileRef] = []
    skipped = {_BY_BUCKET: 0, _BY_RANGE: 0}
    for ref in files:
        reasons = [test.reason(ref) for test in tests]
        if None in reasons or not reasons:
            kept.append(ref)
        else:
            skipped[_BY_RANGE if _BY_RANGE in reasons else _BY_BUCKET] += 1
    return Pruned(tuple(kept), skipped[_BY_BUCKET], skipped[_BY_RANGE])


class _Test:
    """What one place of a query asks of the files of a table."""

    def __init__(self, need: Need, wanted: Wanted) -> None:
        table = need.state.table
        usable = {column: spans for column, spans in wanted.items() if column in need.columns}
        self._range = usable.get(table.sort[0])
        self._buckets: frozenset[int] | None = None
        if table.bucket is not None and table.bucket.column in usable:
            spans = usable[table.bucket.column]
            if all(span.is_point for span in spans):
                values = [span.low for span in spans if span.low is not None]
                self._buckets = frozenset(map(table.bucket.of, values))

    def reason(self, ref: FileRef) -> str | None:
        """Why a file need not be read; None if it must."""
        if self._buckets is not None and self._buckets.isdisjoint(ref.buckets):
            return _BY_BUCKET
        if self._range is not None and ref.low and ref.high:
            return None if reaches(self._range, ref.low[0], ref.high[0]) else _BY_RANGE
        return None
