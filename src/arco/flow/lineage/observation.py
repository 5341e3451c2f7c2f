"""What was observed of one write: the datasets read and the edges between columns, before ids are known."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from arco.events.lineage_payload import Soundness, Transformation

EVERY_COLUMN = "*"
MAX_EDGES = 10_000  # as many as one event holds

# From the best to the worst.
_SOUNDNESS: tuple[Soundness, ...] = ("exact", "opaque", "declared", "table_only", "unsupported")
_LOCAL = re.compile(r"^file:/*")
_S3 = re.compile(r"^s3[an]:")


def weakest(*values: Soundness) -> Soundness:
    """The weakest of these: the soundness of what is made of parts that have them."""
    return max(values, key=_SOUNDNESS.index, default="exact")


@dataclass(frozen=True, order=True)
class Dataset:
    """A table by its name in Spark, or a location in a store by its path."""

    name: str | None = None
    path: str | None = None

    def __str__(self) -> str:
        return self.name or self.path or "?"


@dataclass(frozen=True)
class ReadFact:
    """What was read of a dataset; `partitions` are canonical keys, and empty if they are not known."""

    dataset: Dataset
    partitions: tuple[str, ...] = ()
    rows: int | None = None
    bytes: int | None = None
    version: str | None = None


@dataclass(frozen=True)
class ObservedEdge:
    """From a column that was read to one that was written, or to `*` for an influence."""

    source: Dataset
    source_column: str
    target_column: str
    transformation: Transformation
    sql: str | None = None
    fingerprint: str | None = None


@dataclass(frozen=True)
class LineageObservation:
    """All that was observed of one write; `note` says what is missing and why."""

    reads: tuple[ReadFact, ...] = ()
    edges: tuple[ObservedEdge, ...] = ()
    soundness: Soundness = "exact"
    fingerprint: str | None = None
    note: str = ""

    def without_columns(self, reason: str) -> "LineageObservation":
        """The same with its tables only."""
        return replace(self.weaken("table_only", reason), edges=())

    def weaken(self, soundness: Soundness, reason: str) -> "LineageObservation":
        """The same with at most this soundness."""
        note = "; ".join(part for part in (self.note, reason) if part)
        return replace(self, soundness=weakest(self.soundness, soundness), note=note)


def combine_reads(
    by_write: Sequence[ReadFact], by_all: Sequence[ReadFact], sources: Iterable[Dataset] = ()
) -> tuple[ReadFact, ...]:
    """One fact per dataset: rows and bytes as the write read them, partitions as any query did.

    A program that first counts and then writes reads twice, but the rows of the result came once. `sources`
    that only the plans name are included: an engine may answer from metadata, without a scan.
    """
    grouped: dict[Dataset, list[ReadFact]] = {}
    for fact in by_all:
        grouped.setdefault(fact.dataset, []).append(fact)
    for dataset in sources:
        grouped.setdefault(dataset, [])
    written: dict[Dataset, list[ReadFact]] = {}
    for fact in by_write:
        written.setdefault(fact.dataset, []).append(fact)
    return tuple(
        _combine_facts(dataset, facts, written.get(dataset, []))
        for dataset, facts in sorted(grouped.items(), key=lambda item: str(item[0]))
    )


def _combine_facts(dataset: Dataset, facts: list[ReadFact], written: list[ReadFact]) -> ReadFact:
    versions = {fact.version for fact in facts if fact.version is not None}
    return ReadFact(
        dataset,
        _partitions(facts),
        _count([fact.rows for fact in written], [fact.rows for fact in facts]),
        _count([fact.bytes for fact in written], [fact.bytes for fact in facts]),
        versions.pop() if len(versions) == 1 else None,
    )


def _partitions(facts: list[ReadFact]) -> tuple[str, ...]:
    """All partitions; none if those of one scan are not known, as it may have read any."""
    scans = [fact for fact in facts if fact.partitions or fact.rows != 0]
    if not all(fact.partitions for fact in scans):
        return ()
    return tuple(sorted({key for fact in scans for key in fact.partitions}))


def _count(written: list[int | None], others: list[int | None]) -> int | None:
    """Scans of one write add up; of other queries the largest counts."""
    counts = [count for count in written if count is not None]
    if counts:
        return sum(counts)
    return max((count for count in others if count is not None), default=None)


def is_same_dataset(dataset: Dataset, other: Dataset) -> bool:
    """Whether two names are equal up to a catalog that only one has, or `other` is a path within."""
    if dataset.name is not None and other.name is not None:
        return _is_same_name(dataset.name.casefold(), other.name.casefold())
    if dataset.path is not None and other.path is not None:
        outer, inner = _normal_path(dataset.path), _normal_path(other.path)
        return inner == outer or inner.startswith(outer + "/")
    return False


def _is_same_name(one: str, other: str) -> bool:
    return one == other or one.endswith("." + other) or other.endswith("." + one)


def _normal_path(path: str) -> str:
    return _S3.sub("s3:", _LOCAL.sub("/", path)).rstrip("/")
