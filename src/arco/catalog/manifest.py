"""Manifests and commit records as they are stored; see docs/reference/formats/state.md.

A manifest is the body of an entry of the chain `manifests/{domain}`. It names its commit record and every
file of the state: the tail of small files, one per table and commit, and the base below it. The base files
of tables without buckets are listed in the manifest, those of bucketed tables in one immutable index. An
object that no manifest names does not exist (law 3).
"""

from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from typing import TypeVar

import msgspec

from arco.core import json
from arco.core.errors import Corrupt, Invalid
from arco.core.hashing import sha256_hex
from arco.ledger.stream import Watermark
from arco.storage.chain import Chain
from arco.storage.entry import Entry
from arco.storage.store import Store

FORMAT = 1
COMBINED_FORMAT = 2  # of manifests that name combined files


class Ref(msgspec.Struct, frozen=True, kw_only=True):
    """An object named by its path and the hash of its bytes."""

    path: str
    sha256: str


class FileRef(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The rows of one table in a Parquet file, with statistics by which readers can skip them.

    A plain file has rows of one table only. A combined file has a column for each of its tables, each of
    which names the file with a reference of its own.
    """

    path: str
    rows: int
    bytes: int
    sha256: str
    low: tuple[str, ...] = ()  # the sort columns of its first and its last row, as text
    high: tuple[str, ...] = ()
    buckets: tuple[int, ...] = (0,)  # which buckets its rows belong to
    newest: int = -1  # the highest commit number that a row of it carries; Tier 1 only
    dropped_from: datetime | None = None  # when the first of its dropped rows was dropped
    visibility: str = "all"
    is_combined: bool = msgspec.field(name="combined", default=False)

    def rows_key(self, table: str) -> str:
        """The key of the decoded rows of a table in a cache."""
        return f"{self.sha256}/{table}" if self.is_combined else self.sha256


class Base(msgspec.Struct, frozen=True, kw_only=True):
    """The files below the tail; `unbucketed`, stored as `whole`, holds those of tables without buckets."""

    unbucketed: dict[str, FileRef] = msgspec.field(name="whole", default_factory=dict)
    index: Ref | None = None


class BaseIndex(msgspec.Struct, frozen=True, kw_only=True):
    """The base files of all bucketed tables: by table, then by bucket (as text)."""

    format: int = FORMAT
    tables: dict[str, dict[str, FileRef]]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one domain at one number."""

    format: int = FORMAT
    domain: str
    commit: Ref
    commit_ulid: str
    fencing_token: int
    rows_changed_at: int  # the last number that changed rows (P26)
    orphans_before: str | None = None  # unnamed files older than this may be deleted (P27)
    requests: tuple[str, ...] = ()  # the requests that this commit carries out (P10)
    watermark: Watermark = Watermark()
    retained_from: dict[str, datetime] = msgspec.field(default_factory=dict)  # by table (P20)
    tail: dict[str, tuple[FileRef, ...]] = msgspec.field(default_factory=dict)  # oldest first
    base: Base = Base()

    def named_files(self) -> Iterator[FileRef]:
        """Every file that the manifest itself names."""
        for files in self.tail.values():
            yield from files
        yield from self.base.unbucketed.values()


class CommitOperation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One operation of a commit: the request, its actor, and the object that it changed."""

    request_id: str
    operation: str
    actor: str
    kind: str
    object_id: str
    name: str
    at: datetime
    event_id: str
    event_path: str
    line: int
    event_sha256: str  # of that line


class Counts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one commit of Tier 2 folded."""

    segments: int = 0
    events: int = 0  # all lines that were read
    late: int = 0  # older than what is retained, so not folded (P20)
    quarantined: int = 0
    bytes: int = 0  # of segments
    oldest_received: datetime | None = None  # of its events
    newest_received: datetime | None = None


class CommitKind(StrEnum):
    """Why a manifest was published."""

    DDL = "ddl"  # commits requests
    MERGE = "merge"  # merges the tail into the base
    MARK = "mark"  # lets garbage collection delete older files that no manifest names
    FOLD = "fold"  # folds segments of the ledger: Tier 2
    REBUILD = "rebuild"  # rebuilds the state from the ledger (P20)


class Commit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The audit record of one manifest; each names its parent by the hash of its bytes."""

    format: int  # written always, so without a default
    domain: str
    number: int
    commit_ulid: str
    parent: Ref | None
    kind: CommitKind
    created_at: datetime
    event_paths: tuple[str, ...] = ()
    operations: tuple[CommitOperation, ...] = msgspec.field(name="deeds", default=())
    streams: dict[str, tuple[int, int]] = msgspec.field(default_factory=dict)  # first, last segment
    counts: Counts | None = None
    added: tuple[Ref, ...] = ()
    removed: tuple[str, ...] = ()


D = TypeVar("D", Commit, BaseIndex)


def manifests_of(store: Store, domain: str) -> Chain:
    """The chain of a domain's manifests."""
    return Chain(store, f"manifests/{domain}")


def read_manifest(entry: Entry) -> Manifest:
    """The manifest that a link carries, or `Corrupt`."""
    manifest = entry.body(Manifest)
    if not 1 <= manifest.format <= COMBINED_FORMAT:
        raise Corrupt(
            f"manifest {entry.number} has format {manifest.format}; upgrade Arco to read it"
        )
    return manifest


async def read_commit(store: Store, ref: Ref) -> Commit:
    """The commit record that a manifest names, or `Corrupt`."""
    return _decode(await read_named(store, ref), Commit, ref.path)


async def read_index(store: Store, ref: Ref) -> BaseIndex:
    """The base index that a manifest names, or `Corrupt`."""
    return _decode(await read_named(store, ref), BaseIndex, ref.path)


async def read_named(store: Store, ref: Ref | FileRef) -> bytes:
    """The bytes of an object that a manifest names; `Corrupt` if it is missing or differs (law 14)."""
    size = ref.bytes if isinstance(ref, FileRef) else 0
    raw = await store.find(ref.path, size_bytes=size)
    if raw is None:
        raise Corrupt(f"{ref.path} is missing, and a manifest names it")
    if sha256_hex(raw) != ref.sha256:
        raise Corrupt(f"{ref.path} does not have the bytes that its manifest names")
    return raw


def _decode(raw: bytes, kind: type[D], path: str) -> D:
    try:
        decoded = json.decode(raw, kind)
    except Invalid as problem:
        raise Corrupt(f"{path} cannot be read: {problem}") from problem
    if not 1 <= decoded.format <= FORMAT:
        raise Corrupt(f"{path} has format {decoded.format}; upgrade Arco to read it")
    return decoded
