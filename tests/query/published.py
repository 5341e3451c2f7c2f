"""State of Tier 2 that is published as given: rows by table, in the tail or in the base."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from arco.catalog.manifest import Base, BaseIndex, CommitKind, FileRef, Ref, read_index
from arco.compactor.domains import file_path, index_path
from arco.compactor.publisher import ManifestChange, Publisher, manifest_at
from arco.compactor.state_file_writer import encode_state_file
from arco.core import json
from arco.core.hashing import sha256_hex
from arco.core.ids import new_ulid
from arco.fold.fold import fold
from arco.fold.table import StateTable
from arco.fold.tier2 import OCCURRED, TIER2
from arco.ledger.stream import Watermark
from arco.storage.roles import Role
from tests.query.workspace import Workspace

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def rows_of(table: StateTable, *rows: Mapping[str, Any], order: int = 1) -> pa.Table:
    """Rows of a table; all that decides them has the same order."""
    hidden = {
        column.name: NOON if column.name == OCCURRED else order.to_bytes(8, "big")
        for column in table.columns
        if column.hidden
    }
    return pa.Table.from_pylist([{**hidden, **row} for row in rows], schema=table.schema)


class Publishing:
    """Publishes manifests of one domain."""

    def __init__(self, space: Workspace, domain: str) -> None:
        self._workspace = space
        self._domain = domain
        self._publisher = Publisher(space.store(Role.COMPACTOR), domain)

    async def tail(
        self,
        *tables: tuple[StateTable, pa.Table],
        watermark: Watermark | None = None,
        retained_from: dict[str, datetime] | None = None,
    ) -> int:
        """One more file of the tail for each of these; the number of the manifest."""
        head = await self._publisher.chain.head()
        parent = manifest_at(head)
        files = [self._file(table, rows) for table, rows in tables]
        tail = {} if parent is None else dict(parent.tail)
        for (table, _), (ref, _) in zip(tables, files, strict=True):
            tail[table.name] = (*tail.get(table.name, ()), ref)
        change = ManifestChange(
            kind=CommitKind.FOLD,
            commit_ulid=new_ulid(self._workspace.runtime),
            tail=tail,
            base=Base() if parent is None else parent.base,
            changes_rows=True,
            watermark=watermark,
            retained_from=retained_from,
            files=files,
        )
        return (await self._publisher.publish(head, change)).number

    async def base(self, table: StateTable, rows: pa.Table) -> int:
        """A base of these rows, one file a bucket, below the tail that is there."""
        head = await self._publisher.chain.head()
        parent = manifest_at(head)
        index = await self._index(None if parent is None else parent.base.index)
        files = self._bucket_files(table, fold(table, rows))
        index[table.name] = {str(ref.buckets[0]): ref for ref, _ in files}
        raw = json.encode(BaseIndex(tables=index))
        path = index_path(self._domain, new_ulid(self._workspace.runtime))
        named = Ref(path=path, sha256=sha256_hex(raw))
        change = ManifestChange(
            kind=CommitKind.MERGE,
            commit_ulid=new_ulid(self._workspace.runtime),
            tail={} if parent is None else parent.tail,
            base=Base(index=named),
            files=[*files, (named, raw)],
        )
        return (await self._publisher.publish(head, change)).number

    async def _index(self, ref: Ref | None) -> dict[str, dict[str, FileRef]]:
        if ref is None:
            return {}
        return dict((await read_index(self._publisher.store, ref)).tables)

    def _bucket_files(self, table: StateTable, rows: pa.Table) -> list[tuple[FileRef, bytes]]:
        buckets = table.buckets_of(rows)
        return [
            self._file(table, rows.filter(pa.array([each == bucket for each in buckets])))
            for bucket in sorted(set(buckets))
        ]

    def _file(self, table: StateTable, rows: pa.Table) -> tuple[FileRef, bytes]:
        assert table is TIER2[self._domain][table.name]
        path = file_path(self._domain, table, new_ulid(self._workspace.runtime))
        return encode_state_file(table, fold(table, rows), path)
