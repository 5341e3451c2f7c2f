"""Publishing: files and commit record side by side, then the manifest that names them (P21).

The names of files hold a ULID of this attempt (P3), above the mark below which unnamed files may be
deleted, whatever our clock says (P27). What fails before the manifest is created was not done, and is
reported so; what fails there is unknown.
"""

from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ulid import ULID

from arco.catalog.manifest import (
    FORMAT,
    Base,
    Commit,
    CommitKind,
    Counts,
    Deed,
    FileRef,
    Manifest,
    Ref,
    manifests_of,
    read_manifest,
)
from arco.core import json
from arco.core.clock import utc
from arco.core.errors import Conflict, Fenced, NotFound, Unavailable, Unknown
from arco.core.hashing import sha256_hex
from arco.core.ids import Ulid, new_ulid
from arco.core.runtime import Runtime
from arco.ledger.watermark import Watermark
from arco.storage.chain import Head
from arco.storage.store import Store

NewFile = tuple[FileRef | Ref, bytes]
Guard = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True)
class ManifestChange:
    """What a new manifest is to say, beside what it takes over from its parent."""

    kind: CommitKind
    commit_ulid: str
    tail: dict[str, tuple[FileRef, ...]]
    base: Base
    fencing_token: int = -1
    changes_rows: bool = False
    orphans_before: str | None = None
    requests: tuple[str, ...] = ()
    deeds: tuple[Deed, ...] = ()
    event_paths: tuple[str, ...] = ()
    watermark: Watermark | None = None  # None: that of the parent
    retained_from: dict[str, datetime] | None = None  # None: that of the parent
    streams: dict[str, tuple[int, int]] = field(default_factory=dict)
    counts: Counts | None = None
    files: Sequence[NewFile] = ()  # still to be created
    added: tuple[Ref, ...] = ()
    removed: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class SeenToken:
    """A fencing token that was found to be the newest."""

    number: int
    seen_ms: float  # elapsed time, taken before the requests that showed it


class Publisher:
    """Appends manifests to the chain of one domain."""

    def __init__(self, store: Store, domain: str) -> None:
        self.store = store
        self.domain = domain
        self.chain = manifests_of(store, domain)
        self.written = WrittenFileCache()
        self.newest_token: SeenToken | None = None
        self._runtime = store.runtime

    async def publish(self, head: Head, change: ManifestChange, *guards: Guard) -> Head:
        """Create all that is needed after `head`; `Conflict` if another manifest is there now.

        Guards run beside the files, and stop the manifest by raising.
        """
        parent = manifest_at(head)
        number = head.number + 1
        if parent is not None and 0 <= change.fencing_token < parent.fencing_token:
            raise Fenced(f"fencing token {change.fencing_token} is older than what was published")
        raw = json.encode(self._commit(number, parent, change))
        path = f"commits/{self.domain}/{number:020d}-{change.commit_ulid}.json"
        record = Ref(path=path, sha256=sha256_hex(raw))
        await self._runtime.tasks.gather(
            self.create(change.files),
            self._create_record(record, raw),
            *(guard() for guard in guards),
        )
        return await self.chain.append(head, self._manifest(number, parent, change, record))

    async def create(self, files: Sequence[NewFile]) -> None:
        """Create files under names of their own; `Unavailable` if that cannot be done."""
        try:
            await self._runtime.tasks.gather(
                *(self.store.create(ref.path, raw) for ref, raw in files)
            )
        except (Unknown, Conflict) as problem:
            # No manifest names them, so nothing has happened.
            raise Unavailable("the files of a commit could not be stored; retry") from problem
        for ref, raw in files:
            self.written.keep(ref.sha256, raw)

    async def _create_record(self, record: Ref, raw: bytes) -> None:
        try:
            await self.store.create(record.path, raw)
        except Conflict as met:
            # The same call is being carried out by another hand; only it knows how far it is.
            raise Unknown("this commit is being published by another") from met
        except Unknown as unclear:
            raise Unavailable("the commit record could not be stored; retry") from unclear

    def _commit(self, number: int, parent: Manifest | None, change: ManifestChange) -> Commit:
        new = tuple(Ref(path=ref.path, sha256=ref.sha256) for ref, _ in change.files)
        return Commit(
            format=FORMAT,
            domain=self.domain,
            number=number,
            commit_ulid=change.commit_ulid,
            parent=None if parent is None else parent.commit,
            kind=change.kind,
            created_at=utc(self._runtime.clock.now_ms()),
            event_paths=change.event_paths,
            deeds=change.deeds,
            streams=change.streams,
            counts=change.counts,
            added=(*new, *change.added),
            removed=change.removed,
        )

    def _manifest(
        self, number: int, parent: Manifest | None, change: ManifestChange, record: Ref
    ) -> Manifest:
        marks = [mark for mark in (change.orphans_before, orphan_mark(parent)) if mark]
        return Manifest(
            domain=self.domain,
            commit=record,
            commit_ulid=change.commit_ulid,
            fencing_token=max(change.fencing_token, parent.fencing_token if parent else -1),
            rows_changed_at=number
            if change.changes_rows or parent is None
            else parent.rows_changed_at,
            orphans_before=max(marks, default=None),
            requests=change.requests,
            watermark=change.watermark or (Watermark() if parent is None else parent.watermark),
            retained_from=_bounds(parent) if change.retained_from is None else change.retained_from,
            tail={name: files for name, files in change.tail.items() if files},
            base=change.base,
        )


def manifest_at(head: Head) -> Manifest | None:
    """The manifest at a head."""
    return None if head.entry is None else read_manifest(head.entry)


def _bounds(manifest: Manifest | None) -> dict[str, datetime]:
    return {} if manifest is None else manifest.retained_from


def orphan_mark(manifest: Manifest | None) -> str | None:
    """Below which ULID unnamed files may be deleted."""
    return None if manifest is None else manifest.orphans_before


def new_attempt_ulid(runtime: Runtime, mark: str | None) -> Ulid:
    """A ULID for the names of an attempt's files, above the mark even if our clock is behind."""
    fresh = new_ulid(runtime)
    if mark is None or fresh > mark:
        return fresh
    return Ulid(
        str(
            ULID.from_int(
                int(ULID.from_str(mark)) + 1 + int.from_bytes(runtime.rng.randbytes(8), "big")
            )
        )
    )


def is_below_orphan_mark(attempt: str, head: Manifest | None) -> bool:
    """Whether files of an attempt may be deleted before a manifest on `head` could name them (P27)."""
    mark = orphan_mark(head)
    return mark is not None and attempt <= mark


async def publish_on_head(
    publisher: Publisher,
    head: Head,
    attempt: str,
    holds: Callable[[Manifest | None], bool],
    change: Callable[[Manifest | None], ManifestChange],
) -> Head | None:
    """Publish on the newest head on which the work holds; None if it does not, and nothing was published.

    All changes bear one commit ULID. `Unknown` if even looking does not tell whether it has landed.
    """
    while True:
        parent = manifest_at(head)
        if is_below_orphan_mark(attempt, parent) or not holds(parent):
            return None
        draft = change(parent)
        try:
            return await publisher.publish(head, draft)
        except Conflict:
            head = await publisher.chain.head()
        except Unknown:
            landed = await _find_landed(publisher, head, draft.commit_ulid)
            if landed is None:
                raise
            return landed


async def _find_landed(publisher: Publisher, after: Head, commit_ulid: str) -> Head | None:
    """The manifest of a commit, if it is there above `after`."""
    head = await publisher.chain.head()
    if head.number <= after.number:
        return None
    try:
        since = await publisher.chain.history(after.number + 1, head.number)
    except NotFound:
        return None  # collected meanwhile: nobody can tell any more
    for entry in since:
        if read_manifest(entry).commit_ulid == commit_ulid:
            return Head(entry, head.seen_ms)
    return None


_ROOM_BYTES = 32 * 1024 * 1024
_LARGEST_BYTES = 1024 * 1024


class WrittenFileCache:
    """The bytes of small files by their sha256; the least used ones leave when the room is full."""

    def __init__(self, room_bytes: int = _ROOM_BYTES) -> None:
        self._room_bytes = room_bytes
        self._used_bytes = 0
        self._kept: OrderedDict[str, bytes] = OrderedDict()

    def keep(self, sha256: str, raw: bytes) -> None:
        """This file is durable."""
        if len(raw) > _LARGEST_BYTES or sha256 in self._kept:
            return
        self._kept[sha256] = raw
        self._used_bytes += len(raw)
        while self._used_bytes > self._room_bytes:
            self._used_bytes -= len(self._kept.popitem(last=False)[1])

    def find(self, sha256: str) -> bytes | None:
        """The bytes of a file, if they are still kept."""
        raw = self._kept.get(sha256)
        if raw is not None:
            self._kept.move_to_end(sha256)
        return raw
