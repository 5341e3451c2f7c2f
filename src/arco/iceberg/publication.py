"""Which attempt at a task a commit publishes: the one named by what it brings onto `main` (P35).

A snapshot that is staged, on no branch, publishes nothing. To go back to a snapshot that was on `main`
before is no publication either, whoever has made that snapshot.
"""
# DOC fence: """Fences: versions of a table that change nothing but who may publish its partitions (P35).
#
# Before a task is given to somebody else, a fence with the new attempt's name goes onto the table's chain; an
# earlier attempt that comes late meets it inside its own commit, and is refused. It is a plain number of the
# chain: it names the metadata in effect, races with commits like any of them, and nobody is told of it, as
# nothing has changed.
# """

from collections.abc import Iterator

import msgspec

from arco.catalog.publication import ATTEMPT_PROPERTY, FLOW, Attempt, Numbered, published_by_task
from arco.core import json
from arco.core.errors import Conflict, Invalid, NotFound
from arco.core.ids import new_ulid
from arco.core.json import Json
from arco.iceberg.context import Desk
from arco.iceberg.engine.metadata import Metadata, current_snapshot_id, objects_of
from arco.iceberg.errors import Unreadable, unreadable
from arco.iceberg.pointer import FENCE, Pointer
from arco.iceberg.pointer_head import Standing
from arco.iceberg.prepared_commit import facts_of

_SOURCE = "source-snapshot-id"  # in the summary of a cherry-pick: the snapshot that was staged

Snapshot = dict[str, Json]


def published_attempt(base: Metadata | None, made: Metadata) -> Attempt | None:
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


def _read(told: str) -> Attempt:
    try:
        return json.decode(told.encode(), Attempt)
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


SYSTEM = "client:arco"


class IcebergFences:
    """Fences on Iceberg tables."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def number(self, table_id: str) -> int | None:
        """The last number of a table's chain; None if there is no table any more."""
        standing = await self._desk.standings.of(table_id)
        return standing.number if standing.is_live else None

    async def fence(self, table_id: str, attempt: Attempt, since: int) -> Numbered | int:
        """What an attempt at the same task has published above `since`, or else the number of a fence.

        Round trips: the head, the numbers above `since` that this process has not read yet, the fence.
        """
        desk, chain = self._desk, self._desk.pointers.chain(table_id)
        request_id = new_ulid(desk.runtime)
        async with desk.lanes.enter(table_id):
            while True:
                standing = await desk.standings.decided(await desk.standings.of(table_id))
                if standing.location is None:
                    raise NotFound(f"there is no table {table_id}")
                above = await desk.published.above(chain, since, standing.head)
                done = published_by_task(attempt.task, above)
                if done is not None:
                    return done
                body = await self._body(standing, standing.location, attempt, request_id)
                try:
                    head = await chain.append(standing.head, body)
                except Conflict:
                    continue  # a commit was faster, and may even have been the task's own
                if head.entry is not None:
                    desk.published.learn(chain, head.entry)
                return head.number

    async def _body(
        self, standing: Standing, location: str, attempt: Attempt, request_id: str
    ) -> Pointer:
        """The metadata in effect once more, with what the last number says of them if it names them."""
        fence = Pointer(
            request_id=request_id,
            operation=FENCE,
            actor=SYSTEM,
            update_source=FLOW,
            metadata_location=location,
            previous_location=location,
            publication=attempt.publication(is_fence=True),
        )
        last = standing.pointer
        if last is None or last.metadata_location != location:  # a transaction that was aborted
            try:
                loaded = await self._desk.load(location)
            except Unreadable as problem:
                raise unreadable(problem) from problem
            return msgspec.structs.replace(fence, **facts_of(loaded.metadata))
        return msgspec.structs.replace(
            fence,
            table_uuid=last.table_uuid,
            schema_id=last.schema_id,
            sequence_number=last.sequence_number,
            snapshot=last.snapshot,
        )
