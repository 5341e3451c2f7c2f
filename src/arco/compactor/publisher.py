"""Publishing: state files and the commit record in parallel, then the manifest that names them (P21).

File names contain the ULID of the attempt (P3). It is above the orphan mark, below which files that no
manifest names may be deleted, even if the local clock is behind (P27). A failure before the manifest is
created means that nothing was committed; a failure of the create itself is an unknown outcome.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa
from ulid import ULID

from arco.catalog.compactor_port import Guard
from arco.catalog.manifest import (
    COMBINED_FORMAT,
    FORMAT,
    Base,
    Commit,
    CommitKind,
    CommitOperation,
    Counts,
    FileRef,
    Manifest,
    Ref,
    manifests_of,
    read_manifest,
)
from arco.catalog.state_file import read_rows
from arco.core import json
from arco.core.clock import utc
from arco.core.errors import Conflict, Fenced, NotFound, Unavailable, Unknown
from arco.core.hashing import sha256_hex
from arco.core.ids import Ulid, new_ulid
from arco.core.lru_cache import LruCache
from arco.core.runtime import Runtime
from arco.fold.table import StateTable
from arco.ledger.stream import Watermark
from arco.storage.chain import Head
from arco.storage.store import Store

NewFile = tuple[FileRef | Ref, bytes]


@dataclass(frozen=True)
class ManifestChange:
    """The fields of a new manifest and its commit record that differ from the parent manifest."""

    kind: CommitKind
    commit_ulid: str
    tail: dict[str, tuple[FileRef, ...]]
    base: Base
    fencing_token: int = -1
    changes_rows: bool = False
    orphans_before: str | None = None
    requests: tuple[str, ...] = ()
    operations: tuple[CommitOperation, ...] = ()
    event_paths: tuple[str, ...] = ()
    watermark: Watermark | None = None  # None: as in the parent
    retained_from: dict[str, datetime] | None = None  # None: as in the parent
    streams: dict[str, tuple[int, int]] = field(default_factory=dict)
    counts: Counts | None = None
    files: Sequence[NewFile] = ()  # not created yet
    added: tuple[Ref, ...] = ()
    removed: tuple[str, ...] = ()


@dataclass(frozen=True)
class SeenToken:
    """A fencing token that was the newest one when it was looked up."""

    number: int
    seen_ms: float  # elapsed time, taken before the requests for the look-up


class Publisher:
    """Appends manifests to the chain of one domain."""

    def __init__(self, store: Store, domain: str) -> None:
        self.store = store
        self.domain = domain
        self.chain = manifests_of(store, domain)
        self.written = WrittenRows()
        self.newest_token: SeenToken | None = None
        self._runtime = store.runtime

    async def publish(self, head: Head, change: ManifestChange, *guards: Guard) -> Head:
        """Publish a manifest after `head`; `Conflict` if its number is taken.

        Guards run in parallel with the uploads; one that raises prevents the manifest.
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
        """Create files; `Unavailable` if one cannot be stored."""
        try:
            await self._runtime.tasks.gather(
                *(self.store.create(ref.path, raw) for ref, raw in files)
            )
        except (Unknown, Conflict) as problem:
            # No manifest names them, so nothing was committed.
            raise Unavailable("the files of a commit could not be stored; retry") from problem

    async def read(self, table: StateTable, ref: FileRef) -> pa.Table:
        """The rows of a state file; from memory if this process wrote it."""
        rows = self.written.find(ref.sha256, table)
        if rows is not None:
            return rows
        return await read_rows(self.store, table, ref, refuse_unknown_columns=True)

    async def _create_record(self, record: Ref, raw: bytes) -> None:
        try:
            await self.store.create(record.path, raw)
        except Conflict as conflict:
            # Another process publishes the same call, and its outcome is not known yet.
            raise Unknown("another process is publishing this commit") from conflict
        except Unknown as unknown:
            raise Unavailable("the commit record could not be stored; retry") from unknown

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
            operations=change.operations,
            streams=change.streams,
            counts=change.counts,
            added=(*new, *change.added),
            removed=change.removed,
        )

    def _manifest(
        self, number: int, parent: Manifest | None, change: ManifestChange, record: Ref
    ) -> Manifest:
        has_combined = any(ref.is_combined for files in change.tail.values() for ref in files)
        marks = [mark for mark in (change.orphans_before, orphan_mark(parent)) if mark]
        return Manifest(
            format=COMBINED_FORMAT if has_combined else FORMAT,
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
            retained_from=retained_from_of(parent)
            if change.retained_from is None
            else change.retained_from,
            tail={name: files for name, files in change.tail.items() if files},
            base=change.base,
        )


def manifest_at(head: Head) -> Manifest | None:
    """The manifest at the head of a chain; None for an empty chain."""
    return None if head.entry is None else read_manifest(head.entry)


def retained_from_of(manifest: Manifest | None) -> dict[str, datetime]:
    """The times below which rows have left, by table."""
    return {} if manifest is None else manifest.retained_from


def orphan_mark(manifest: Manifest | None) -> str | None:
    """The ULID below which files that no manifest names may be deleted."""
    return None if manifest is None else manifest.orphans_before


def new_attempt_ulid(runtime: Runtime, mark: str | None) -> Ulid:
    """A ULID for the file names of an attempt, above the mark even if the local clock is behind."""
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
    """Whether files of an attempt may be deleted before a manifest after `head` could name them (P27)."""
    mark = orphan_mark(head)
    return mark is not None and attempt <= mark


async def publish_on_head(
    publisher: Publisher,
    head: Head,
    attempt: str,
    holds: Callable[[Manifest | None], bool],
    change: Callable[[Manifest | None], ManifestChange],
) -> Head | None:
    """Publish on the newest head for which `holds` is true; None if it is not, and nothing is published.

    After each conflict `change` is called for the new head; all changes carry one commit ULID. An unknown
    outcome is resolved by looking for that ULID; `Unknown` if the look-up does not resolve it.
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
    """The manifest of a commit, if it was published above `after`."""
    head = await publisher.chain.head()
    if head.number <= after.number:
        return None
    try:
        since = await publisher.chain.history(after.number + 1, head.number)
    except NotFound:
        return None  # collected meanwhile, so the outcome stays unknown
    for entry in since:
        if read_manifest(entry).commit_ulid == commit_ulid:
            return Head(entry, head.seen_ms)
    return None


_CACHE_BYTES = 32 * 1024 * 1024
_MOST_BYTES = 1024 * 1024  # of one table of one file
_OVERHEAD_BYTES = 10_000  # of a decoded table, besides its values


class WrittenRows:
    """The rows of small files that this process wrote, least recently used first out.

    Merges take them from here instead of the store. The key is the hash of the file, since a restored
    store may reuse paths (P29).
    """

    def __init__(self, max_bytes: int = _CACHE_BYTES) -> None:
        self._cache = LruCache[tuple[str, str], pa.Table](
            max_bytes, lambda rows: int(rows.nbytes) + _OVERHEAD_BYTES
        )

    def keep(self, sha256: str, table: StateTable, rows: pa.Table) -> None:
        """Keep the rows of one table in a file."""
        if rows.nbytes <= _MOST_BYTES:
            self._cache.put((sha256, table.name), rows)

    def find(self, sha256: str, table: StateTable) -> pa.Table | None:
        """The rows of one table in a file, if they are still in the cache."""
        return self._cache.get((sha256, table.name))
