"""Merges of the catalog domain: the tail goes into the base, without expired rows (P22, P26).

A merge reads the tail, and the base files of the buckets that have new or expired rows, and replaces those
base files under one new index. It removes rows that were dropped long ago.

A merge is published on any head that still names all its inputs, so merges and commits never starve each
other. A merge that removes rows says in its manifest that rows changed, so decisions on them are repeated.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from arco.catalog.manifest import CommitKind, FileRef, Manifest, Ref
from arco.catalog.model import uuid_name
from arco.compactor.base_files import BaseFiles, read_base
from arco.compactor.domains import file_path
from arco.compactor.publisher import (
    ManifestChange,
    NewFile,
    Publisher,
    is_below_orphan_mark,
    manifest_at,
    new_attempt_ulid,
    orphan_mark,
)
from arco.compactor.state_file_writer import encode_state_file
from arco.core.errors import Conflict
from arco.core.ids import new_ulid
from arco.fold.fold import fold
from arco.fold.table import StateTable
from arco.fold.tier1 import (
    CATALOGS,
    COLUMNS,
    MOVED,
    OBJECTS,
    PLACES,
    SCHEMA_VERSIONS,
    SCHEMAS,
    TABLES,
)
from arco.storage.chain import Head

_PARALLEL_READS = 8  # base files that are read in parallel

_CONTAINERS_FIRST = (CATALOGS, SCHEMAS, TABLES, COLUMNS, SCHEMA_VERSIONS, OBJECTS, PLACES)


async def merge(publisher: Publisher, *, forget_before: datetime) -> Head | None:
    """Merge all tails; None if there is nothing to do, or another merge was first."""
    head = await publisher.chain.head()
    manifest = manifest_at(head)
    if manifest is None:
        return None
    work = _Merge(publisher, manifest, forget_before)
    await work.fold_all()
    if not work.removed:
        return None
    await publisher.create(work.files)
    return await work.publish(head)


class _Merge:
    """A merge in progress: its input manifest, and the files that replace its inputs."""

    def __init__(self, publisher: Publisher, manifest: Manifest, forget_before: datetime) -> None:
        self._publisher = publisher
        self._store = publisher.store
        self._tasks = publisher.store.runtime.tasks
        self._input = manifest
        self._merged = {ref.path for files in manifest.tail.values() for ref in files}
        self._expired = ExpiredRows(forget_before)
        self._attempt = new_attempt_ulid(self._store.runtime, orphan_mark(manifest))
        self._files = BaseFiles(manifest.base)
        self._base = manifest.base
        self.files: list[NewFile] = []
        self.removed: set[str] = set()

    async def fold_all(self) -> None:
        """Merge the tails and the rows to expire into the base, and build the new base."""
        self._files = await read_base(self._store, self._input.base)
        for table in _CONTAINERS_FIRST:
            await self._fold(table)
        self._base = self._files.base(self._new_index(self._input.base.index))

    async def publish(self, head: Head) -> Head | None:
        """Publish on the newest head that still has all inputs (P26)."""
        while True:
            manifest = manifest_at(head)
            if manifest is None or not self._fits(manifest):
                return None
            try:
                return await self._publisher.publish(head, self._change(manifest))
            except Conflict:
                head = await self._publisher.chain.head()

    def _fits(self, head: Manifest) -> bool:
        if is_below_orphan_mark(self._attempt, head):
            return False
        tail = {ref.path for files in head.tail.values() for ref in files}
        return head.base == self._input.base and self._merged <= tail

    def _change(self, head: Manifest) -> ManifestChange:
        return ManifestChange(
            kind=CommitKind.MERGE,
            commit_ulid=new_ulid(self._store.runtime),
            tail={
                name: tuple(ref for ref in files if ref.path not in self._merged)
                for name, files in head.tail.items()
            },
            base=self._base,
            changes_rows=self._expired.rows > 0,
            added=tuple(Ref(path=ref.path, sha256=ref.sha256) for ref, _ in self.files),
            removed=tuple(sorted(self.removed)),
        )

    async def _fold(self, table: StateTable) -> None:
        tail = self._input.tail.get(table.name, ())
        due = {bucket for ref in tail for bucket in ref.buckets}
        due |= self._expired.buckets(table) | self._stale(table)
        read = await self._read(table, tail)
        tail_rows = _by_bucket(table, pa.concat_tables([table.empty, *read]))
        self.removed |= {ref.path for ref in tail}
        for wave in _waves(sorted(due)):
            bases = {bucket: self._files.file(table, bucket) for bucket in wave}
            refs = [ref for ref in bases.values() if ref is not None]
            rows_of = dict(zip(refs, await self._read(table, refs), strict=True))
            for bucket, base in bases.items():
                base_rows = None if base is None else rows_of[base]
                await self._fold_bucket(table, bucket, [base_rows, tail_rows.get(bucket)])

    async def _read(self, table: StateTable, refs: Sequence[FileRef]) -> list[pa.Table]:
        return await self._tasks.gather(*(self._publisher.read(table, ref) for ref in refs))

    async def _fold_bucket(
        self, table: StateTable, bucket: int, parts: Sequence[pa.Table | None]
    ) -> None:
        base = self._files.file(table, bucket)
        path = file_path(self._publisher.domain, table, f"{bucket:03d}-{self._attempt}")

        def work() -> tuple[FileRef, bytes, pa.Table] | None:
            present = [part for part in parts if part is not None]
            folded = fold(table, pa.concat_tables([table.empty, *present]))
            kept_rows = self._expired.filter(table, folded)
            if not kept_rows.num_rows:
                return None
            return *encode_state_file(table, kept_rows, path), kept_rows

        # In a thread: a large bucket takes a while, and this process serves requests meanwhile.
        new = await self._tasks.in_thread(work)
        if base is not None:
            self.removed.add(base.path)
        if new is not None:
            ref, raw, rows = new
            self.files.append((ref, raw))
            self._publisher.written.keep(ref.sha256, table, rows)
        self._files.put(table, bucket, None if new is None else new[0])

    def _stale(self, table: StateTable) -> set[int]:
        """Buckets whose base file has rows that were dropped long enough ago to be removed."""
        return {
            bucket
            for ref in self._files.of(table).values()
            if ref.dropped_from is not None
            for bucket in ref.buckets
            if ref.dropped_from < self._expired.before
        }

    def _new_index(self, old: Ref | None) -> Ref | None:
        """The index of the base files: a new one, unless nothing was merged."""
        if not self.removed:
            return old
        ref, raw = self._files.new_index(self._publisher.domain, self._attempt)
        self.files.append((ref, raw))
        if old is not None:
            self.removed.add(old.path)
        return ref


def _by_bucket(table: StateTable, rows: pa.Table) -> dict[int, pa.Table]:
    """The rows of each bucket that has any."""
    positions: dict[int, list[int]] = {}
    for position, bucket in enumerate(table.buckets_of(rows)):
        positions.setdefault(bucket, []).append(position)
    return {bucket: rows.take(indexes) for bucket, indexes in positions.items()}


def _waves(buckets: list[int]) -> Iterator[list[int]]:
    for start in range(0, len(buckets), _PARALLEL_READS):
        yield buckets[start : start + _PARALLEL_READS]


class ExpiredRows:
    """The rows that one merge removes for good: dropped before a moment, and all that they contained.

    An object in a dropped container has no drop time itself, so tables are filtered containers first. The
    uuid alias of a removed table goes too, unless it names another table now. A table that moved leaves a
    marker row in its old bucket, which is useless once it has reached the base.
    """

    def __init__(self, before: datetime) -> None:
        self.before = before
        self.catalogs: set[str] = set()
        self.schemas: set[str] = set()
        self.tables: set[str] = set()
        self.aliases: set[str] = set()  # names of the uuids of those tables in the table of objects
        self.rows = 0  # removed rows that readers could see

    def buckets(self, table: StateTable) -> set[int]:
        """The buckets of a table that may have rows in removed containers."""
        if table is SCHEMAS:
            return {0} if self.catalogs else set()
        if table is TABLES:
            return {table.bucket_of(each) for each in self.schemas}
        if table in (COLUMNS, SCHEMA_VERSIONS):
            return {table.bucket_of(each) for each in self.tables}
        if table is OBJECTS:
            return {table.bucket_of(each) for each in self._everything() | self.aliases}
        if table is PLACES:
            return {0} if self.tables else set()
        return set()

    def filter(self, table: StateTable, rows: pa.Table) -> pa.Table:
        """The rows that are kept."""
        removed = self._removed(table, rows)
        kept_rows = rows.filter(pc.invert(removed))
        self.rows += rows.num_rows - kept_rows.num_rows - _count_moved(table, rows)
        return kept_rows.combine_chunks()

    def _removed(self, table: StateTable, rows: pa.Table) -> pa.ChunkedArray:
        if table is CATALOGS:
            old = self._old(rows)
            self.catalogs |= _ids(rows, "catalog_id", old)
            return old
        if table is SCHEMAS:
            self._add_schemas(rows)
            return _among(rows, "schema_id", self.schemas)
        if table is TABLES:
            moved = pc.fill_null(rows.column(MOVED), False)
            is_old = pc.or_(self._old(rows), _among(rows, "schema_id", self.schemas))
            ended = pc.and_not(is_old, moved)
            self.tables |= _ids(rows, "table_id", ended)
            self.aliases |= {uuid_name(each) for each in _ids(rows, "table_uuid", ended) if each}
            return pc.or_(is_old, moved)
        if table in (COLUMNS, PLACES):
            return pc.or_(self._old(rows), _among(rows, "table_id", self.tables))
        if table is SCHEMA_VERSIONS:
            return _among(rows, "table_id", self.tables)
        alias = pc.and_(_among(rows, "id", self.aliases), _among(rows, "parent_id", self.tables))
        return pc.or_(_among(rows, "id", self._everything()), alias)

    def _add_schemas(self, rows: pa.Table) -> None:
        """Add schemas that were dropped, or lie in a removed catalog or below a removed schema."""
        old = pc.or_(self._old(rows), _among(rows, "catalog_id", self.catalogs))
        self.schemas |= _ids(rows, "schema_id", old)
        while True:
            below = _ids(rows, "schema_id", _among(rows, "parent_id", self.schemas))
            if below <= self.schemas:
                return
            self.schemas |= below

    def _old(self, rows: pa.Table) -> pa.ChunkedArray:
        dropped = pc.less(
            rows.column("dropped_at"), pa.scalar(self.before, pa.timestamp("us", "UTC"))
        )
        return pc.fill_null(dropped, False)

    def _everything(self) -> set[str]:
        return self.catalogs | self.schemas | self.tables


def _count_moved(table: StateTable, rows: pa.Table) -> int:
    """How many rows only record that a table moved: readers do not see them."""
    return int(pc.sum(rows.column(MOVED)).as_py() or 0) if table is TABLES else 0


def _among(rows: pa.Table, name: str, values: set[str]) -> pa.ChunkedArray:
    return pc.is_in(rows.column(name), value_set=pa.array(sorted(values), pa.string()))


def _ids(rows: pa.Table, name: str, mask: pa.ChunkedArray) -> set[str]:
    return set(rows.column(name).filter(mask).to_pylist())
