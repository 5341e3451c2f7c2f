"""The tail of Tier 2: when it is made shorter, and when it goes into the base (ADR 0051).

A tail that has a quarter of the base's rows goes into the base, once it is long or large. Until then the
smallest of its files are folded into one. The largest of these is never larger than all others of them
together, as far as the sizes allow it: so a row is written anew only when its file at least doubles, and
the bytes that are written stay in proportion to those that came.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from arco.catalog.manifest import FileRef, Manifest
from arco.compactor.base_files import BaseFiles
from arco.compactor.job import MergePart
from arco.fold.table import StateTable

_FEWEST = 4  # files that are folded into one: fewer would not make a tail shorter for long
_LITTLE_ROWS = 200_000  # a merge of no more is done in one part
_PART_BUCKETS = 16
_PART_ROWS = 1_000_000  # about so many rows a part, if several buckets make them up


@dataclass(frozen=True)
class Policy:
    """From when on a tail is long, and large."""

    longest: int = 16  # files of a table
    longest_behind: int = 64  # while there is still a backlog, which goes first
    many_rows: int = 50_000  # that are worth a base
    # What one task can hold. Files and buckets of more rows stay as they are: the tail gets longer, but a
    # merge that cannot end would help nobody.
    most_rows: int = 1 << 62

    def is_due(self, manifest: Manifest, *, behind: bool = False) -> bool:
        """Whether some tail is worth a closer look, which takes the base's index."""
        return any(self._is_long(tail, behind=behind) for tail in manifest.tail.values())

    def plan_merge(
        self,
        manifest: Manifest,
        base: BaseFiles,
        tables: Mapping[str, StateTable],
        *,
        behind: bool = False,
    ) -> tuple[MergePart, ...]:
        """What to merge now; nothing if no tail needs it."""
        parts: list[MergePart] = []
        for name, tail in manifest.tail.items():
            if not self._is_long(tail, behind=behind):
                continue
            table = tables[name]
            if self._belongs_in_base(tail, base.of(table)):
                parts += base_parts(table, buckets_in(tail), tail, base.of(table))
            elif len(tail) >= self.longest:
                small = _smallest([ref for ref in tail if ref.rows * _FEWEST <= self.most_rows])
                small = _fitting(small, self.most_rows)
                if len(small) >= _FEWEST:
                    parts.append(_shorter(table, small))
        return tuple(parts)

    def _is_long(self, tail: Sequence[FileRef], *, behind: bool) -> bool:
        if behind:
            return len(tail) >= self.longest_behind
        return len(tail) >= self.longest or _rows(tail) > self.many_rows

    def _belongs_in_base(self, tail: Sequence[FileRef], base: Mapping[str, FileRef]) -> bool:
        in_base, in_tail = _rows(base.values()), _rows(tail)
        if _largest_bucket(tail, base) > self.most_rows:
            return False
        return in_tail * 4 >= in_base if in_base else in_tail > self.many_rows


def base_parts(
    table: StateTable,
    buckets: AbstractSet[int],
    tail: Sequence[FileRef],
    base: Mapping[str, FileRef],
) -> Iterator[MergePart]:
    """Some buckets of a tail into the base: in one part if it is little, otherwise in several."""
    old = {bucket: ref for bucket, ref in base.items() if int(bucket) in buckets}
    rows = _rows(tail) + _rows(old.values())
    width = max(1, len(buckets))
    if rows > _LITTLE_ROWS:
        width = max(1, min(_PART_BUCKETS, width * _PART_ROWS // rows))
    ordered = sorted(buckets)  # a file of the tail has neighbouring buckets, so few parts read it
    for start in range(0, len(ordered), width):
        wanted = ordered[start : start + width]
        yield MergePart(
            table=table.name,
            buckets=tuple(wanted),
            tail=tuple(ref for ref in tail if not set(wanted).isdisjoint(ref.buckets)),
            base={bucket: ref for bucket, ref in old.items() if int(bucket) in wanted},
            into_base=True,
        )


def buckets_in(tail: Iterable[FileRef]) -> set[int]:
    """The buckets that a tail has rows of."""
    return {bucket for ref in tail for bucket in ref.buckets}


def _smallest(tail: Sequence[FileRef]) -> list[FileRef]:
    """The most files of which none is larger than all smaller ones together; a few in any case."""
    by_size = sorted(tail, key=lambda ref: (ref.bytes, ref.path))
    total, count = 0, 0
    for place, ref in enumerate(by_size, start=1):
        if ref.bytes <= total:
            count = place
        total += ref.bytes
    return by_size[: max(count, _FEWEST)]


def _fitting(by_size: Sequence[FileRef], most_rows: int) -> list[FileRef]:
    """As many of the first files as have no more rows together."""
    fitting: list[FileRef] = []
    for ref in by_size:
        most_rows -= ref.rows
        if most_rows < 0:
            break
        fitting.append(ref)
    return fitting


def _largest_bucket(tail: Iterable[FileRef], base: Mapping[str, FileRef]) -> int:
    """About how many rows the largest bucket has, if the rows of a file are evenly in its buckets."""
    rows = {int(bucket): ref.rows for bucket, ref in base.items()}
    for ref in tail:
        for bucket in ref.buckets:
            rows[bucket] = rows.get(bucket, 0) + ref.rows // len(ref.buckets)
    return max(rows.values(), default=0)


def _shorter(table: StateTable, files: Sequence[FileRef]) -> MergePart:
    return MergePart(
        table=table.name,
        buckets=tuple(sorted(buckets_in(files))),
        tail=tuple(files),
        base={},
        into_base=False,
    )


def _rows(files: Iterable[FileRef]) -> int:
    return sum(ref.rows for ref in files)
