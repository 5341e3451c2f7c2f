"""Synchronous compaction: the decided rows of a group become one commit (P21 to P24).

The rows are stamped with the number that commits them, so they are written anew after a lost number. A
call whose commit is already there is answered with it. Nothing is published on a base whose rows have
changed, nor with a token that has been passed.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from functools import partial

import pyarrow as pa

from arco.catalog.event import CatalogChanged, read_event
from arco.catalog.manifest import Base, CommitKind, Deed, FileRef, read_manifest
from arco.catalog.model import AnyRow, to_columns
from arco.catalog.port import Committed, SyncCompact
from arco.compactor.domains import file_path
from arco.compactor.publisher import (
    ManifestChange,
    NewFile,
    Publisher,
    SeenToken,
    manifest_at,
    new_attempt_ulid,
    orphan_mark,
)
from arco.compactor.state_file_writer import encode_state_file
from arco.core import json
from arco.core.errors import Conflict, Denied, Fenced, Invalid, NotFound, Unknown
from arco.core.hashing import sha256_hex
from arco.core.ids import parse_ulid
from arco.fold.fold import fold
from arco.fold.tier1 import COMMIT, POSITION, TIER1
from arco.ledger.envelope import Envelope
from arco.storage.chain import FRESH_MS, Chain, Head

Rows = dict[str, list[AnyRow]]

_EVENT_PATH = re.compile(r"ledger/[^#]+\.jsonl#[1-9][0-9]{0,8}")


async def sync_compact(publisher: Publisher, call: SyncCompact) -> Committed:
    """Publish the events of a call as one commit."""
    _refuse_strangers(publisher, call)
    said, rows = _read(call)
    # Who has published the base itself knows the head without asking: a round trip less.
    known = publisher.chain.remembered()
    head = known if known and known.number == call.base_manifest else await publisher.chain.head()
    while True:
        landed = await _landed(publisher, call, head)
        if landed is not None:
            return landed
        _refuse_stale(call, head)
        change = _draft(publisher, call, head, said, rows)
        try:
            guard = partial(_refuse_passed, publisher, call)
            return committed(await publisher.publish(head, change, guard))
        except Conflict:
            head = await publisher.chain.head()


def committed(head: Head) -> Committed:
    """What the caller is told of a manifest that was just published, or found."""
    if head.entry is None:
        raise Invalid("an empty chain has published nothing")
    return Committed(
        manifest_version=head.number,
        commit_ulid=read_manifest(head.entry).commit_ulid,
        manifest=head.entry.raw.decode(),
    )


def _read(call: SyncCompact) -> tuple[list[CatalogChanged], Rows]:
    """What the events say, and their rows in the order of the commit; one bad event refuses all (P24)."""
    parse_ulid(call.commit_ulid)
    if call.fencing_token < 0:
        raise Invalid("a fencing token is a number from 0 up")
    for path in call.event_paths:
        if not _EVENT_PATH.fullmatch(path):
            raise Invalid("an event's path is that of its segment, '#' and its line")
    if not call.events or len(call.events) != len(call.event_paths):
        raise Invalid("a commit has one or more events, and each of them a path")
    said: list[CatalogChanged] = []
    rows: Rows = {}
    for event in call.events:
        changed, its_rows = read_event(event)
        said.append(changed)
        for table, more in its_rows.items():
            rows.setdefault(table, []).extend(more)
    return said, rows


async def _landed(publisher: Publisher, call: SyncCompact, head: Head) -> Committed | None:
    """The call's own commit, if it is already there (P23)."""
    if head.number <= call.base_manifest:
        return None
    try:
        since = await publisher.chain.history(call.base_manifest + 1, head.number)
    except NotFound as collected:
        raise Unknown("what would show whether this commit has landed was collected") from collected
    _refuse_another(call, since[0].link.parent_sha256)
    for entry in since:
        if read_manifest(entry).commit_ulid == call.commit_ulid:
            return committed(Head(entry, head.seen_ms))
    return None


def _refuse_strangers(publisher: Publisher, call: SyncCompact) -> None:
    """`Denied` if the call is meant for another workspace: its caller has the wrong address."""
    mine = publisher.store.scope
    if (call.tenant or mine.tenant, call.workspace or mine.workspace) != (
        mine.tenant,
        mine.workspace,
    ):
        raise Denied("this compactor serves another workspace")


def _refuse_stale(call: SyncCompact, head: Head) -> None:
    parent = manifest_at(head)
    if head.number < call.base_manifest:
        raise Conflict(f"there is no manifest {call.base_manifest}")
    if head.entry is not None and head.number == call.base_manifest:
        _refuse_another(call, head.entry.sha256())
    if parent is not None and parent.rows_changed_at > call.base_manifest:
        raise Conflict(f"rows have changed since manifest {call.base_manifest}")


def _refuse_another(call: SyncCompact, base_sha256: str | None) -> None:
    if call.base_sha256 not in (None, base_sha256):
        raise Conflict(f"manifest {call.base_manifest} is another one here")


async def _refuse_passed(publisher: Publisher, call: SyncCompact) -> None:
    """`Fenced` unless the token is that of the newest lease, whatever was published with it so far.

    A token that was never given out would be carried on by every later manifest, and fence everybody. So
    it is looked up itself, at its first commit and after an hour. Otherwise only its successor is: within
    `FRESH_MS` of a moment at which there was none, one that was made since cannot have been collected (P7).
    """
    epochs, token = Chain(publisher.store, f"locks/{publisher.domain}"), call.fencing_token
    clock, newest = publisher.store.runtime.clock, publisher.newest_token
    asked_ms = clock.elapsed_ms()
    seen_ms, wanted = asked_ms, [token + 1, token]
    if newest is not None and newest.number == token and asked_ms - newest.seen_ms < FRESH_MS:
        seen_ms, wanted = newest.seen_ms, [token + 1]
    passed, *held = await publisher.store.runtime.tasks.gather(*map(epochs.find, wanted))
    slept = clock.elapsed_ms() - seen_ms >= FRESH_MS
    if passed is not None or None in held or slept:
        raise Fenced(f"fencing token {token} is not that of the newest lease")
    publisher.newest_token = SeenToken(token, asked_ms)


def _draft(
    publisher: Publisher, call: SyncCompact, head: Head, said: Sequence[CatalogChanged], rows: Rows
) -> ManifestChange:
    parent, number = manifest_at(head), head.number + 1
    name = new_attempt_ulid(publisher.store.runtime, orphan_mark(parent))
    files: list[NewFile] = []
    tail = dict(parent.tail) if parent else {}
    for table, its_rows in rows.items():
        ref, raw = _delta(publisher.domain, table, its_rows, number, name)
        files.append((ref, raw))
        tail[table] = (*tail.get(table, ()), ref)
    return ManifestChange(
        kind=CommitKind.DDL,
        commit_ulid=call.commit_ulid,
        tail=tail,
        base=parent.base if parent else Base(),
        fencing_token=call.fencing_token,
        changes_rows=True,
        requests=tuple(each.request_id for each in said),
        deeds=tuple(map(_deed, said, call.events, call.event_paths)),
        event_paths=tuple(dict.fromkeys(path.partition("#")[0] for path in call.event_paths)),
        files=files,
    )


def _delta(
    domain: str, name: str, rows: list[AnyRow], number: int, attempt: str
) -> tuple[FileRef, bytes]:
    """One file with all rows of a table that a commit changes."""
    table = TIER1[name]
    stamped = [
        to_columns(row) | {COMMIT: number, POSITION: position} for position, row in enumerate(rows)
    ]
    folded = fold(table, pa.Table.from_pylist(stamped, schema=table.schema))
    return encode_state_file(table, folded, file_path(domain, table, attempt))


def _deed(said: CatalogChanged, event: Envelope, path: str) -> Deed:
    at: datetime = event.occurred_at
    where, _, line = path.partition("#")
    return Deed(
        request_id=said.request_id,
        operation=said.operation,
        actor=said.actor,
        kind=said.kind,
        object_id=said.object_id,
        name=said.name,
        at=at,
        event_id=event.event_id,
        event_path=where,
        line=int(line),
        event_sha256=sha256_hex(json.encode(event)),
    )
