"""The tables of `system` that are made of a domain's chain: `commits`, `audit`, `manifests` and others.

They go back from the snapshot for a bounded number of manifests, and never below the floor of the chain; a
query as of an older number sees the ones before. `domains`, `files` and `streams` show the snapshot only.
Manifests and commit records never change, so each is read once.
"""

from collections.abc import Iterable, Sequence

import pyarrow as pa

from arco.catalog.manifest import (
    BaseIndex,
    Commit,
    FileRef,
    Manifest,
    Ref,
    read_commit,
    read_index,
    read_manifest,
)
from arco.catalog.reader import SnapshotReader
from arco.catalog.snapshot import Snapshot
from arco.core.errors import Corrupt, NotFound
from arco.fold.tier1 import TIER1
from arco.fold.tier2 import TIER2
from arco.query.system_tables import CHAIN_SCHEMAS
from arco.storage.entry import Entry

_PARALLEL_READS = 64


class ChainHistory:
    """Reads the chain of one domain, and keeps the entries of the last read."""

    def __init__(self, reader: SnapshotReader, *, depth: int) -> None:
        self._reader = reader
        self._store = reader.store
        self._depth = depth
        self._entries: dict[int, Entry] = {}
        self._commits: dict[str, Commit] = {}
        self._indexes: dict[str, BaseIndex] = {}

    async def table(self, name: str, snapshot: Snapshot) -> pa.Table:
        """One of these tables, as of a snapshot."""
        match name:
            case "files":
                rows = await self._files(snapshot)
            case "streams":
                rows = self._streams(snapshot)
            case "domains":
                rows = await self._head_row(snapshot)
            case _:
                rows = await self._chain_rows(name, snapshot)
        columns = list(zip(*rows, strict=True)) or [()] * len(CHAIN_SCHEMAS[name])
        arrays = [
            pa.array(values, field.type)
            for values, field in zip(columns, CHAIN_SCHEMAS[name], strict=True)
        ]
        return pa.table(arrays, schema=CHAIN_SCHEMAS[name])

    async def _chain_rows(self, name: str, snapshot: Snapshot) -> list[tuple[object, ...]]:
        """The rows of a table; read again if entries were garbage collected meanwhile."""
        while True:
            floor = await self._reader.chain.floor()
            try:
                return await self._rows(name, snapshot, floor)
            except (NotFound, Corrupt):
                if await self._reader.chain.floor() == floor:
                    raise

    async def _rows(self, name: str, snapshot: Snapshot, floor: int) -> list[tuple[object, ...]]:
        first = max(floor, snapshot.number - self._depth + 1, 0)
        entries = await self._walk(first, snapshot)
        manifests = [read_manifest(entry) for entry in entries]
        if name == "manifests":
            await self._read_indexes(manifests)
            files = [self._all_files(manifest) for manifest in manifests]
            return [_manifest_row(*each) for each in zip(entries, manifests, files, strict=True)]
        commits = await self._read_commits(entries, manifests)
        if name == "audit":
            return [row for commit in commits for row in _audit_rows(commit)]
        return [_commit_row(*each) for each in zip(manifests, commits, strict=True)]

    async def _walk(self, first: int, snapshot: Snapshot) -> list[Entry]:
        """The entries from `first` to the snapshot, each the parent of the next; cached if possible."""
        if snapshot.entry is None:
            return []
        entries = [snapshot.entry]  # newest first
        while entries[-1].number > first:
            parent = self._entries.get(entries[-1].number - 1)
            if parent is None or parent.sha256() != entries[-1].record.parent_sha256:
                break
            entries.append(parent)
        lowest = entries[-1].number
        if lowest > first:
            # The lowest cached entry is read again, to prove that both parts are of one chain.
            read = await self._reader.chain.history(first, lowest)
            if read[-1].sha256() != entries[-1].sha256():
                raise Corrupt(f"number {lowest} of {self._reader.chain.path} has changed")
            entries += reversed(read[:-1])
        self._entries = {**self._recent(first), **{entry.number: entry for entry in entries}}
        return entries[::-1]

    def _recent(self, first: int) -> dict[int, Entry]:
        """The cached entries near this walk, which the next one may need."""
        span = range(first - self._depth, first + 2 * self._depth)
        return {number: entry for number, entry in self._entries.items() if number in span}

    async def _read_commits(
        self, entries: Sequence[Entry], manifests: Sequence[Manifest]
    ) -> list[Commit]:
        refs = [manifest.commit for manifest in manifests]
        missing = [ref for ref in refs if ref.sha256 not in self._commits]
        read = {**self._commits}
        for start in range(0, len(missing), _PARALLEL_READS):
            batch = missing[start : start + _PARALLEL_READS]
            commits = await self._store.runtime.tasks.gather(
                *(read_commit(self._store, ref) for ref in batch)
            )
            read.update(zip((ref.sha256 for ref in batch), commits, strict=True))
        self._commits = {ref.sha256: read[ref.sha256] for ref in refs}
        for entry, ref in zip(entries, refs, strict=True):
            if read[ref.sha256].number != entry.number:
                raise Corrupt(
                    f"the commit record of number {entry.number} is that of another commit"
                )
        return [read[ref.sha256] for ref in refs]

    async def _read_indexes(self, manifests: Iterable[Manifest]) -> None:
        refs = {ref.sha256: ref for m in manifests if (ref := m.base.index) is not None}
        missing = [ref for sha256, ref in refs.items() if sha256 not in self._indexes]
        for start in range(0, len(missing), _PARALLEL_READS):
            batch = missing[start : start + _PARALLEL_READS]
            read = await self._store.runtime.tasks.gather(
                *(read_index(self._store, ref) for ref in batch)
            )
            self._indexes.update(zip((ref.sha256 for ref in batch), read, strict=True))
        self._indexes = {sha256: self._indexes[sha256] for sha256 in refs}

    def _all_files(self, manifest: Manifest) -> list[FileRef]:
        """Every file of a manifest, including those of its index."""
        files = [*manifest.named_files()]
        if manifest.base.index is not None:
            for buckets in self._indexes[manifest.base.index.sha256].tables.values():
                files += buckets.values()
        return files

    async def _files(self, snapshot: Snapshot) -> list[tuple[object, ...]]:
        if snapshot.manifest is None:
            return []
        tail = {ref.path for files in snapshot.manifest.tail.values() for ref in files}
        tables = TIER2.get(self._reader.domain, TIER1)
        return [
            (self._reader.domain, *_file_row(name, ref, "tail" if ref.path in tail else "base"))
            for name, table in tables.items()
            for ref in await snapshot.files_of(table)
        ]

    async def _head_row(self, snapshot: Snapshot) -> list[tuple[object, ...]]:
        if snapshot.entry is None or snapshot.manifest is None:
            return []
        index = await snapshot.index()
        buckets = [ref for files in index.tables.values() for ref in files.values()]
        files = [*snapshot.manifest.named_files(), *buckets]
        return [_manifest_row(snapshot.entry, snapshot.manifest, files)]

    def _streams(self, snapshot: Snapshot) -> list[tuple[object, ...]]:
        if snapshot.manifest is None:
            return []
        streams = snapshot.manifest.watermark.open
        return [(self._reader.domain, stream, last) for stream, last in sorted(streams.items())]


def _commit_row(manifest: Manifest, commit: Commit) -> tuple[object, ...]:
    ref: Ref = manifest.commit
    return (
        commit.number,
        commit.commit_ulid,
        commit.kind.value,
        commit.created_at,
        sorted({operation.actor for operation in commit.operations}),
        len(commit.operations),
        len(commit.added),
        len(commit.removed),
        ref.path,
        ref.sha256,
        None if commit.parent is None else commit.parent.sha256,
    )


def _audit_rows(commit: Commit) -> list[tuple[object, ...]]:
    return [
        (
            commit.number,
            commit.commit_ulid,
            operation.at,
            operation.actor,
            operation.operation,
            operation.kind,
            operation.object_id,
            operation.name,
            operation.request_id,
            operation.event_id,
        )
        for operation in commit.operations
    ]


def _manifest_row(entry: Entry, manifest: Manifest, files: Sequence[FileRef]) -> tuple[object, ...]:
    sizes = {ref.path: ref.bytes for ref in files}  # several tables may name one combined file
    return (
        manifest.domain,
        entry.number,
        entry.record.created_at,
        manifest.commit_ulid,
        entry.sha256(),
        entry.record.parent_sha256,
        manifest.fencing_token,
        manifest.rows_changed_at,
        len(sizes),
        sum(ref.rows for ref in files),
        sum(sizes.values()),
        len(manifest.requests),
        len({ref.path for refs in manifest.tail.values() for ref in refs}),
        manifest.watermark.frontier,
        len(manifest.watermark.open),
    )


def _file_row(table: str, ref: FileRef, place: str) -> tuple[object, ...]:
    return (
        table,
        ref.path,
        ref.rows,
        ref.bytes,
        ref.sha256,
        place,
        ref.newest,
        ref.visibility,
        list(ref.buckets),
    )
