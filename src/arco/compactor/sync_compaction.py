"""Synchronous compaction: the decided rows of a group commit become one commit (P21 to P24).

Rows carry the number of their commit, so they are encoded again if another process takes that number. A
call whose commit exists already is answered with it. Nothing is published on a base whose rows have
changed, or with a fencing token that is not the newest.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from functools import cache, partial

import pyarrow as pa

from arco.catalog.compactor_port import Guard, PublishedCommit, SyncCompact, no_guard
from arco.catalog.event import CatalogChanged, read_event
from arco.catalog.manifest import Base, CommitKind, CommitOperation, read_manifest
from arco.catalog.model import AnyRow, to_columns
from arco.compactor.domains import combined_path
from arco.compactor.publisher import (
    ManifestChange,
    Publisher,
    SeenToken,
    manifest_at,
    new_attempt_ulid,
    orphan_mark,
)
from arco.compactor.state_file_writer import encode_combined_file
from arco.core import json
from arco.core.errors import Conflict, Denied, Fenced, Invalid, NotFound, Unknown
from arco.core.hashing import sha256_hex
from arco.core.ids import parse_ulid
from arco.fold.fold import fold
from arco.fold.table import StateTable
from arco.fold.tier1 import COMMIT, POSITION, TIER1
from arco.ledger.envelope import Envelope
from arco.storage.chain import FRESH_MS, Chain, Head

Rows = dict[str, list[AnyRow]]

_EVENT_PATH = re.compile(r"ledger/[^#]+\.jsonl#[1-9][0-9]{0,8}")


async def sync_compact(
    publisher: Publisher, call: SyncCompact, guard: Guard = no_guard
) -> PublishedCommit:
    """Publish the events of a call as one commit, once `guard` has returned."""
    _refuse_other_workspace(publisher, call)
    changes, rows = _read(call)
    # If this process published the base itself, it knows the head: one round trip less.
    head = publisher.chain.remembered()
    if head is None or head.number != call.base_manifest:
        head = await publisher.chain.head()
    while True:
        landed = await _landed(publisher, call, head)
        if landed is not None:
            return landed
        _refuse_stale(call, head)
        change = _draft(publisher, call, head, changes, rows)
        try:
            newest_token = partial(_refuse_stale_token, publisher, call)
            return committed(await publisher.publish(head, change, newest_token, guard))
        except Conflict:
            await guard()  # raises its own conflict
            head = await publisher.chain.head()


def committed(head: Head) -> PublishedCommit:
    """The answer for a manifest that was just published, or found."""
    if head.entry is None:
        raise Invalid("an empty chain has published nothing")
    return PublishedCommit(
        manifest_version=head.number,
        commit_ulid=read_manifest(head.entry).commit_ulid,
        manifest=head.entry.raw.decode(),
    )


def _read(call: SyncCompact) -> tuple[list[CatalogChanged], Rows]:
    """The changes in the events, and their rows in commit order; one bad event rejects the call (P24)."""
    parse_ulid(call.commit_ulid)
    if call.fencing_token < 0:
        raise Invalid("a fencing token is a number from 0 up")
    for path in call.event_paths:
        if not _EVENT_PATH.fullmatch(path):
            raise Invalid("an event's path is that of its segment, '#' and its line")
    if not call.events or len(call.events) != len(call.event_paths):
        raise Invalid("a commit has one or more events, and each of them a path")
    changes: list[CatalogChanged] = []
    rows: Rows = {}
    for event in call.events:
        changed, its_rows = read_event(event)
        changes.append(changed)
        for table, more in its_rows.items():
            rows.setdefault(table, []).extend(more)
    return changes, rows


async def _landed(publisher: Publisher, call: SyncCompact, head: Head) -> PublishedCommit | None:
    """The commit of this call, if it was published before (P23)."""
    if head.number <= call.base_manifest:
        return None
    try:
        since = await publisher.chain.history(call.base_manifest + 1, head.number)
    except NotFound as collected:
        raise Unknown("the manifests that would show this commit were collected") from collected
    _refuse_other_base(call, since[0].record.parent_sha256)
    for entry in since:
        if read_manifest(entry).commit_ulid == call.commit_ulid:
            return committed(Head(entry, head.seen_ms))
    return None


def _refuse_other_workspace(publisher: Publisher, call: SyncCompact) -> None:
    """`Denied` if the call is for another workspace: its sender is configured with the wrong address."""
    scope = publisher.store.scope
    expected_scope = (call.tenant or scope.tenant, call.workspace or scope.workspace)
    if expected_scope != (scope.tenant, scope.workspace):
        raise Denied("this compactor serves another workspace")


def _refuse_stale(call: SyncCompact, head: Head) -> None:
    parent = manifest_at(head)
    if head.number < call.base_manifest:
        raise Conflict(f"there is no manifest {call.base_manifest}")
    if head.entry is not None and head.number == call.base_manifest:
        _refuse_other_base(call, head.entry.sha256())
    if parent is not None and parent.rows_changed_at > call.base_manifest:
        raise Conflict(f"rows have changed since manifest {call.base_manifest}")


def _refuse_other_base(call: SyncCompact, base_sha256: str | None) -> None:
    if call.base_sha256 not in (None, base_sha256):
        raise Conflict(
            f"manifest {call.base_manifest} has other bytes than the call was decided on"
        )


async def _refuse_stale_token(publisher: Publisher, call: SyncCompact) -> None:
    """`Fenced` unless the token is that of the newest lease.

    Every later manifest carries the token on, so one that was never issued would fence all writers. The
    token itself is looked up at its first commit and after `FRESH_MS`; otherwise only its successor is. A
    successor that was created within `FRESH_MS` cannot have been collected yet (P7).
    """
    epochs, token = Chain(publisher.store, f"locks/{publisher.domain}"), call.fencing_token
    clock, newest = publisher.store.runtime.clock, publisher.newest_token
    asked_ms = clock.elapsed_ms()
    seen_ms, epoch_numbers = asked_ms, [token + 1, token]
    if newest is not None and newest.number == token and asked_ms - newest.seen_ms < FRESH_MS:
        seen_ms, epoch_numbers = newest.seen_ms, [token + 1]
    passed, *own_epoch = await publisher.store.runtime.tasks.gather(
        *map(epochs.find, epoch_numbers)
    )
    slept = clock.elapsed_ms() - seen_ms >= FRESH_MS
    if passed is not None or None in own_epoch or slept:
        raise Fenced(f"fencing token {token} is not that of the newest lease")
    publisher.newest_token = SeenToken(token, asked_ms)


def _draft(
    publisher: Publisher,
    call: SyncCompact,
    head: Head,
    changes: Sequence[CatalogChanged],
    rows: Rows,
) -> ManifestChange:
    parent, number = manifest_at(head), head.number + 1
    name = new_attempt_ulid(publisher.store.runtime, orphan_mark(parent))
    folded = {table: _folded(table, its_rows, number) for table, its_rows in rows.items()}
    path = combined_path(publisher.domain, name)
    refs, file, raw = encode_combined_file(TIER1, folded, path)
    for table, its_rows in folded.items():
        publisher.written.keep(file.sha256, TIER1[table], its_rows)
    tail = dict(parent.tail) if parent else {}
    for table, ref in refs.items():
        tail[table] = (*tail.get(table, ()), ref)
    return ManifestChange(
        kind=CommitKind.DDL,
        commit_ulid=call.commit_ulid,
        tail=tail,
        base=parent.base if parent else Base(),
        fencing_token=call.fencing_token,
        changes_rows=True,
        requests=tuple(each.request_id for each in changes),
        operations=tuple(map(_operation, changes, call.events, call.event_paths)),
        event_paths=tuple(dict.fromkeys(path.partition("#")[0] for path in call.event_paths)),
        files=[(file, raw)],
    )


def _folded(name: str, rows: list[AnyRow], number: int) -> pa.Table:
    """The rows of one table that a commit changes, stamped with its number, in the order of files."""
    table = TIER1[name]
    stamped = [
        to_columns(row) | {COMMIT: number, POSITION: position} for position, row in enumerate(rows)
    ]
    keys = {tuple(row[each] for each in table.key) for row in stamped}
    has_distinct_keys = len(keys) == len(rows)
    if has_distinct_keys:  # as the catalog decides them (ADR 34): nothing to fold
        stamped.sort(key=lambda row: [(row[c] is not None, row[c]) for c in _file_order(table)])
    structs = pa.array(stamped, pa.struct(list(table.schema)))
    sorted_rows = pa.Table.from_struct_array(structs)
    return sorted_rows if has_distinct_keys else fold(table, sorted_rows)


@cache
def _file_order(table: StateTable) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*table.sort, *table.key]))


def _operation(change: CatalogChanged, event: Envelope, path: str) -> CommitOperation:
    at: datetime = event.occurred_at
    segment_path, _, line = path.partition("#")
    return CommitOperation(
        request_id=change.request_id,
        operation=change.operation,
        actor=change.actor,
        kind=change.kind,
        object_id=change.object_id,
        name=change.name,
        at=at,
        event_id=event.event_id,
        event_path=segment_path,
        line=int(line),
        event_sha256=sha256_hex(json.encode(event)),
    )
