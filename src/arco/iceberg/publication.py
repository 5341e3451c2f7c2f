"""Publications of task attempts, and fences against late ones (P35).

A commit publishes the attempt that is named by the snapshot it brings onto `main`; a staged snapshot,
or a rollback, publishes nothing. Before a task is given to another worker, a fence with the new
attempt's name is appended to the table's chain; an earlier attempt that commits late finds it and is
refused. A fence names the metadata in effect and is not reported as an event.
"""

from collections.abc import Iterator

import msgspec

from arco.catalog.change import SYSTEM
from arco.catalog.publication import (
    ATTEMPT_PROPERTY,
    FLOW,
    DispatchedAttempt,
    NumberedPublication,
    published_by_task,
)
from arco.core import json
from arco.core.errors import Conflict, Invalid, NotFound
from arco.core.ids import new_ulid
from arco.core.json import Json
from arco.iceberg.context import IcebergContext
from arco.iceberg.engine.metadata import Metadata, current_snapshot_id, objects_of
from arco.iceberg.pointer import Pointer, PointerOperation
from arco.iceberg.pointer_head import PointerHead
from arco.iceberg.prepared_commit import pointer_facts

_SOURCE = "source-snapshot-id"  # in the summary of a cherry-pick: the staged snapshot

Snapshot = dict[str, Json]


def published_attempt(base: Metadata | None, metadata: Metadata) -> DispatchedAttempt | None:
    """The attempt whose snapshot comes onto `main`, if any; `Invalid` if it cannot be read."""
    old, new = None if base is None else current_snapshot_id(base), current_snapshot_id(metadata)
    if new is None or new == old:
        return None
    attempt_texts = {
        text
        for each in _new_on_main(base, metadata, old, new)
        if (text := _attempt_text(metadata, each))
    }
    if not attempt_texts or new in _main_history(base):
        return None
    if len(attempt_texts) > 1:
        raise Invalid(f"a commit publishes one attempt, and this one names {len(attempt_texts)}")
    return _read(attempt_texts.pop())


def attempt_snapshots(metadata: Metadata) -> set[int]:
    """The ids of the snapshots that name an attempt."""
    return {
        int(str(each["snapshot-id"]))
        for each in objects_of(metadata, "snapshots")
        if _attempt_text(metadata, each) is not None
    }


def refuse_attempt(base: Metadata | None, metadata: Metadata) -> None:
    """`Invalid` if a change of several tables would publish an attempt.

    A transaction may still be aborted, and an attempt that was published on one table before would have
    to be left out on all others. So only commits to one table publish attempts.
    """
    if published_attempt(base, metadata) is not None:
        raise Invalid("an attempt is published by a commit of one table, not by a transaction")


def _new_on_main(
    base: Metadata | None, metadata: Metadata, old: int | None, new: int
) -> Iterator[Snapshot]:
    """The snapshots that this commit brings onto `main`, the newest first."""
    newest = _find(metadata, new)
    if newest is None:
        return
    if newest.get("parent-snapshot-id") == old:
        yield newest  # as almost always
        return
    by_id = {each.get("snapshot-id"): each for each in objects_of(metadata, "snapshots")}
    before = _main_history(base).union(each.get("snapshot-id") for each in _ancestry(by_id, old))
    for each in _ancestry(by_id, new):
        if each.get("snapshot-id") in before:
            return
        yield each


def _main_history(base: Metadata | None) -> set[Json]:
    """The snapshots in the log of `main`."""
    log = [] if base is None else objects_of(base, "snapshot-log")
    return {each.get("snapshot-id") for each in log}


def _ancestry(by_id: dict[Json, Snapshot], snapshot_id: Json) -> Iterator[Snapshot]:
    """A snapshot and its ancestors; metadata from elsewhere may contain a cycle."""
    visited = set()
    while snapshot_id in by_id and snapshot_id not in visited:
        visited.add(snapshot_id)
        yield by_id[snapshot_id]
        snapshot_id = by_id[snapshot_id].get("parent-snapshot-id")


def _attempt_text(metadata: Metadata, snapshot: Snapshot) -> str | None:
    summary = _summary(snapshot)
    text = summary.get(ATTEMPT_PROPERTY)
    source = str(summary.get(_SOURCE, ""))
    if text is None and source.isascii() and source.isdigit():
        text = _summary(_find(metadata, int(source)) or {}).get(ATTEMPT_PROPERTY)
    return None if text is None else str(text)


def _read(attempt_text: str) -> DispatchedAttempt:
    try:
        return json.decode(attempt_text.encode(), DispatchedAttempt)
    except Invalid as problem:
        raise Invalid(f"{ATTEMPT_PROPERTY} in the snapshot's summary: {problem}") from problem


def _find(metadata: Metadata, snapshot_id: int) -> Snapshot | None:
    """A snapshot by its id, searched from the end, where new ones are."""
    for each in reversed(objects_of(metadata, "snapshots")):
        if each.get("snapshot-id") == snapshot_id:
            return each
    return None


def _summary(snapshot: Snapshot) -> dict[str, Json]:
    summary = snapshot.get("summary")
    return summary if isinstance(summary, dict) else {}


class IcebergFences:
    """Fences on Iceberg tables."""

    def __init__(self, context: IcebergContext) -> None:
        self._context = context

    async def number(self, table_id: str) -> int | None:
        """The number of a table's head; None if the table does not exist."""
        table_head = await self._context.heads.of(table_id)
        return table_head.number if table_head.is_live else None

    async def fence(
        self, table_id: str, attempt: DispatchedAttempt, since: int
    ) -> NumberedPublication | int:
        """The publication of the same task above `since`, or else the number of a new fence.

        Round trips: the head, the unread entries above `since`, the fence.
        """
        context, chain = self._context, self._context.pointers.chain(table_id)
        request_id = new_ulid(context.runtime)
        async with context.table_locks.hold(table_id):
            while True:
                table_head = await context.heads.settle(await context.heads.of(table_id))
                if table_head.location is None:
                    raise NotFound(f"there is no table {table_id}")
                publications = await context.published.publications_since(
                    chain, since, table_head.chain_head
                )
                done = published_by_task(attempt.task, publications)
                if done is not None:
                    return done
                body = await self._body(table_head, table_head.location, attempt, request_id)
                try:
                    head = await chain.append(table_head.chain_head, body)
                except Conflict:
                    continue  # a commit was faster, perhaps of the same task
                if head.entry is not None:
                    context.published.learn(chain, head.entry)
                return head.number

    async def _body(
        self, table_head: PointerHead, location: str, attempt: DispatchedAttempt, request_id: str
    ) -> Pointer:
        """A pointer to the metadata in effect, with the facts of the last pointer if it names that."""
        fence = Pointer(
            request_id=request_id,
            operation=PointerOperation.FENCE,
            actor=SYSTEM,
            update_source=FLOW,
            metadata_location=location,
            previous_location=location,
            publication=attempt.publication(is_fence=True),
        )
        head_pointer = table_head.pointer
        # They differ if the head belongs to an aborted transaction.
        if head_pointer is None or head_pointer.metadata_location != location:
            loaded = await self._context.load(location)
            return msgspec.structs.replace(fence, **pointer_facts(loaded.metadata))
        return msgspec.structs.replace(
            fence,
            metadata_sha256=head_pointer.metadata_sha256,
            table_uuid=head_pointer.table_uuid,
            schema_id=head_pointer.schema_id,
            sequence_number=head_pointer.sequence_number,
            snapshot=head_pointer.snapshot,
        )
