"""Which attempt at a task a commit publishes: the one named by what it brings onto `main` (P35).

A snapshot that is staged, on no branch, publishes nothing. To go back to a snapshot that was on `main`
before is no publication either, whoever has made that snapshot.
"""

from collections.abc import Iterator

from arco.catalog.publication import ATTEMPT_PROPERTY, DispatchedAttempt
from arco.core import json
from arco.core.errors import Invalid
from arco.core.json import Json
from arco.iceberg.engine.metadata import Metadata, current_snapshot_id, objects_of

_SOURCE = "source-snapshot-id"  # in the summary of a cherry-pick: the snapshot that was staged

Snapshot = dict[str, Json]


def published_attempt(base: Metadata | None, made: Metadata) -> DispatchedAttempt | None:
    """The attempt whose snapshot comes onto `main`, if any does; `Invalid` if it cannot be read."""
    old, new = None if base is None else current_snapshot_id(base), current_snapshot_id(made)
    if new is None or new == old:
        return None
    told = {text for each in _arriving(base, made, old, new) if (text := _told(made, each))}
    if not told or new in _been(base):
        return None
    if len(told) > 1:
        raise Invalid(f"a commit publishes one attempt, and this one names {len(told)}")
    return _read(told.pop())


def attempt_snapshots(metadata: Metadata) -> set[int]:
    """The ids of the snapshots that name an attempt."""
    return {
        int(str(each["snapshot-id"]))
        for each in objects_of(metadata, "snapshots")
        if _told(metadata, each) is not None
    }


def refuse_attempt(base: Metadata | None, made: Metadata) -> None:
    """`Invalid` if a change of several tables would publish an attempt.

    A pointer of a transaction may still be aborted, and what has been published already on one table would
    have to be left out on all others. So attempts are published by commits of one table alone.
    """
    if published_attempt(base, made) is not None:
        raise Invalid("an attempt is published by a commit of one table, not by a transaction")


def _arriving(
    base: Metadata | None, made: Metadata, old: int | None, new: int
) -> Iterator[Snapshot]:
    """The snapshots that were never on `main` and are from now on, the newest first."""
    newest = _find(made, new)
    if newest is None:
        return
    if newest.get("parent-snapshot-id") == old:
        yield newest  # as almost always
        return
    by_id = {each.get("snapshot-id"): each for each in objects_of(made, "snapshots")}
    been = _been(base).union(each.get("snapshot-id") for each in _line(by_id, old))
    for each in _line(by_id, new):
        if each.get("snapshot-id") in been:
            return
        yield each


def _been(base: Metadata | None) -> set[Json]:
    """The snapshots that `main` is known to have been at."""
    log = [] if base is None else objects_of(base, "snapshot-log")
    return {each.get("snapshot-id") for each in log}


def _line(by_id: dict[Json, Snapshot], snapshot_id: Json) -> Iterator[Snapshot]:
    """A snapshot and those before it; metadata that others wrote may even run in a circle."""
    seen = set()
    while snapshot_id in by_id and snapshot_id not in seen:
        seen.add(snapshot_id)
        yield by_id[snapshot_id]
        snapshot_id = by_id[snapshot_id].get("parent-snapshot-id")


def _told(made: Metadata, snapshot: Snapshot) -> str | None:
    summary = _summary(snapshot)
    told = summary.get(ATTEMPT_PROPERTY)
    source = str(summary.get(_SOURCE, ""))
    if told is None and source.isascii() and source.isdigit():
        told = _summary(_find(made, int(source)) or {}).get(ATTEMPT_PROPERTY)
    return None if told is None else str(told)


def _read(told: str) -> DispatchedAttempt:
    try:
        return json.decode(told.encode(), DispatchedAttempt)
    except Invalid as problem:
        raise Invalid(f"{ATTEMPT_PROPERTY} in the snapshot's summary: {problem}") from problem


def _find(metadata: Metadata, snapshot_id: int) -> Snapshot | None:
    """A snapshot by its id, looked for from the end: there the new ones are."""
    for each in reversed(objects_of(metadata, "snapshots")):
        if each.get("snapshot-id") == snapshot_id:
            return each
    return None


def _summary(snapshot: Snapshot) -> dict[str, Json]:
    summary = snapshot.get("summary")
    return summary if isinstance(summary, dict) else {}
