"""Reads: several facts about the same dataset, told as one."""

from collections.abc import Iterable, Sequence

from arco.flow.lineage.observation import Dataset, ReadFact


def all_reads(
    by_write: Sequence[ReadFact], by_all: Sequence[ReadFact], sources: Iterable[Dataset]
) -> tuple[ReadFact, ...]:
    """One fact for each dataset: rows and bytes as the write read them, partitions as anybody did.

    A query that counted first and wrote then has read twice, but the rows of the result came once. What
    only the plans name is told too: an engine may answer from its metadata, without a scan.
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
        _together(dataset, facts, written.get(dataset, []))
        for dataset, facts in sorted(grouped.items(), key=lambda item: str(item[0]))
    )


def read_by(sources: Iterable[Dataset]) -> tuple[ReadFact, ...]:
    """Facts of which no more than the dataset is known."""
    return all_reads([], [], sources)


def _together(dataset: Dataset, facts: list[ReadFact], written: list[ReadFact]) -> ReadFact:
    versions = {fact.version for fact in facts if fact.version is not None}
    return ReadFact(
        dataset,
        _partitions(facts),
        _count([fact.rows for fact in written], [fact.rows for fact in facts]),
        _count([fact.bytes for fact in written], [fact.bytes for fact in facts]),
        versions.pop() if len(versions) == 1 else None,
    )


def _partitions(facts: list[ReadFact]) -> tuple[str, ...]:
    """All of them; if one scan's are not known, then none: it may have read any."""
    telling = [fact for fact in facts if fact.partitions or fact.rows != 0]
    if not all(fact.partitions for fact in telling):
        return ()
    return tuple(sorted({key for fact in telling for key in fact.partitions}))


def _count(written: list[int | None], others: list[int | None]) -> int | None:
    """Scans of one write add up; of other queries the largest counts."""
    known = [count for count in written if count is not None]
    if known:
        return sum(known)
    return max((count for count in others if count is not None), default=None)
