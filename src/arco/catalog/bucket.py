"""Buckets: one bucket of one table as of one manifest, the files of the tail on top of the base.

Of several rows with one key the one in the newest source is valid, because the sources are in the order of
the commits of Tier 1 (P22). So a look-up folds nothing.
"""

from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import Generic, TypeVar, cast

from arco.catalog.model import AnyRow, CommittedRow
from arco.catalog.state_file import KeyValue, RowSource, RowState, SortKey

R = TypeVar("R", bound=AnyRow)

_CHUNK = 256


class Bucket(Generic[R]):
    """The rows of one bucket, from several sources, newest first."""

    def __init__(self, sources: Sequence[RowSource]) -> None:
        self._sources = tuple(sources)

    def over(self, source: RowSource) -> "Bucket[R]":
        """This bucket with rows on top that were decided but not yet published."""
        return Bucket((source, *self._sources))

    def get(self, key: SortKey) -> CommittedRow[R] | None:
        """The row with this key, dropped or not; None if it has moved to another bucket."""
        for source in self._sources:
            index = source.find(key)
            if index is not None:
                return (
                    None
                    if source.state(index) is RowState.MOVED
                    else self._committed(source, index)
                )
        return None

    def live_row(self, parent: SortKey, label: KeyValue) -> CommittedRow[R] | None:
        """The live row of a parent with this label."""
        for depth, source in enumerate(self._sources):
            for index in source.exactly(parent, label):
                if source.state(index) is RowState.LIVE and self._is_newest(depth, source, index):
                    return self._committed(source, index)
        return None

    def every(self, parent: SortKey, label: KeyValue) -> list[CommittedRow[R]]:
        """All live rows of a parent with this label, in a table where several may have it."""
        return [
            self._committed(source, index)
            for depth, source in enumerate(self._sources)
            for index in source.exactly(parent, label)
            if source.state(index) is RowState.LIVE and self._is_newest(depth, source, index)
        ]

    def below(
        self,
        parent: SortKey,
        *,
        after: KeyValue | None = None,
        after_key: SortKey | None = None,
        limit: int | None = None,
        state: RowState | None = RowState.LIVE,
    ) -> list[CommittedRow[R]]:
        """Rows of a parent by label and key, in one state or (None) live and dropped.

        They begin after the label `after`. Dropped rows may share a label: with `after_key` they begin
        at the label `after`, after that key.
        """
        rows: list[CommittedRow[R]] = []
        chosen: list[tuple[RowSource, int]] = []
        for depth, index in self._positions(parent, after, after_key):
            source = self._sources[depth]
            if limit is not None and len(rows) + len(chosen) >= limit:
                break
            row_state = source.state(index)
            is_in_state = (
                row_state is state if state is not None else row_state is not RowState.MOVED
            )
            if is_in_state and self._is_newest(depth, source, index):
                chosen.append((source, index))
            if len(chosen) == _CHUNK:
                rows += self._decode(chosen)
                chosen = []
        return rows + self._decode(chosen)

    def _positions(
        self, parent: SortKey, after: KeyValue | None, after_key: SortKey | None
    ) -> Iterator[tuple[int, int]]:
        """Every row of a parent as (index of its source, index in it), by label and key."""
        if after is not None and after_key is not None:
            same = [
                (depth, index)
                for depth, source in enumerate(self._sources)
                for index in source.exactly(parent, after)
                if source.key(index) > after_key
            ]
            yield from self._by_key(same)
        for _, rows in groupby(self._labelled(parent, after), key=itemgetter(0)):
            yield from self._by_key([(depth, index) for _, depth, index in rows])

    def _by_key(self, rows: list[tuple[int, int]]) -> list[tuple[int, int]]:
        if len(rows) > 1:
            rows.sort(key=lambda row: (self._sources[row[0]].key(row[1]), row[0]))
        return rows

    def _labelled(
        self, parent: SortKey, after: KeyValue | None
    ) -> Iterator[tuple[KeyValue, int, int]]:
        """Every row of a parent as (label, index of its source, index in it), by label."""
        spans = (
            [(source.label(index), depth, index) for index in span]
            if len(span := source.span(parent, after)) < _CHUNK
            else _iterate_lazily(source, depth, span)
            for depth, source in enumerate(self._sources)
        )
        return cast("Iterator[tuple[KeyValue, int, int]]", merge(*spans))

    def _is_newest(self, depth: int, source: RowSource, index: int) -> bool:
        if depth == 0:
            return True
        key = source.key(index)
        return all(newer.find(key) is None for newer in self._sources[:depth])

    def _committed(self, source: RowSource, index: int) -> CommittedRow[R]:
        [row] = source.rows([index])
        return CommittedRow(cast("R", row), source.commit(index))

    def _decode(self, chosen: list[tuple[RowSource, int]]) -> list[CommittedRow[R]]:
        """The decoded rows, one source at a time: decoding them one by one costs far more."""
        rows: dict[tuple[int, int], AnyRow] = {}
        for source in {id(source): source for source, _ in chosen}.values():
            indexes = [index for owner, index in chosen if owner is source]
            decoded = zip(indexes, source.rows(indexes), strict=True)
            rows |= {(id(source), index): row for index, row in decoded}
        return [
            CommittedRow(cast("R", rows[id(source), index]), source.commit(index))
            for source, index in chosen
        ]


def _iterate_lazily(
    source: RowSource, depth: int, span: range
) -> Iterator[tuple[KeyValue, int, int]]:
    for index in span:
        yield source.label(index), depth, index
