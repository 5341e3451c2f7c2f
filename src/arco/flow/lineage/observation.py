"""Observations: what was seen of one write, before anybody knows the ids of its tables."""

from dataclasses import dataclass, replace

from arco.events.lineage import Soundness, Transformation

EVERY_COLUMN = "*"
MOST_EDGES = 10_000  # as many as one event holds

# From the best to the worst; of several marks the worst counts.
_WEAKER: tuple[Soundness, ...] = ("exact", "opaque", "declared", "table_only", "unsupported")


def weakest(*marks: Soundness) -> Soundness:
    """The mark that holds for all of it."""
    return max(marks, key=_WEAKER.index, default="exact")


@dataclass(frozen=True, order=True)
class Dataset:
    """A table by its name as Spark knows it, or a place in a store by its path."""

    name: str | None = None
    path: str | None = None

    def __str__(self) -> str:
        return self.name or self.path or "?"


@dataclass(frozen=True)
class ReadFact:
    """What was read of a dataset; `partitions` are canonical keys, and none are named if none are known."""

    dataset: Dataset
    partitions: tuple[str, ...] = ()
    rows: int | None = None
    bytes: int | None = None
    version: str | None = None


@dataclass(frozen=True)
class Edge:
    """From a column that was read to one that was written, or to `*` for an influence."""

    source: Dataset
    source_column: str
    target_column: str
    transformation: Transformation
    sql: str | None = None
    fingerprint: str | None = None


@dataclass(frozen=True)
class Observation:
    """All that was seen of one write; `note` says in plain words what is missing and why."""

    reads: tuple[ReadFact, ...] = ()
    edges: tuple[Edge, ...] = ()
    soundness: Soundness = "exact"
    fingerprint: str | None = None
    note: str = ""

    def without_columns(self, why: str) -> "Observation":
        """The same, with no more than its tables."""
        return replace(self.weakened("table_only", why), edges=())

    def weakened(self, mark: Soundness, why: str) -> "Observation":
        """The same, and no better than a mark."""
        noted = "; ".join(part for part in (self.note, why) if part)
        return replace(self, soundness=weakest(self.soundness, mark), note=noted)
