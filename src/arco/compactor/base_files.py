"""The base of a manifest, file by file, while a merge replaces files.

A manifest names the base files of tables without buckets itself; those of bucketed tables are in an index
file. An index is immutable: a merge writes a new one.
"""

from collections.abc import Iterator, Mapping

from arco.catalog.manifest import Base, BaseIndex, FileRef, Ref, read_index
from arco.compactor.domains import index_path
from arco.core import json
from arco.core.hashing import sha256_hex
from arco.fold.table import StateTable
from arco.storage.store import Store


class BaseFiles:
    """The base file of each bucket of each table."""

    def __init__(self, base: Base, index: BaseIndex | None = None) -> None:
        self._single_files = dict(base.unbucketed)
        tables = {} if index is None else index.tables
        self._buckets = {name: dict(files) for name, files in tables.items()}

    def of(self, table: StateTable) -> Mapping[str, FileRef]:
        """The files of a table by bucket (as text); "0" for a table without buckets."""
        if table.bucket is None:
            ref = self._single_files.get(table.name)
            return {} if ref is None else {"0": ref}
        return self._buckets.get(table.name, {})

    def file(self, table: StateTable, bucket: int) -> FileRef | None:
        """The file of one bucket, if it has any rows."""
        return self.of(table).get(str(bucket))

    def files(self) -> Iterator[FileRef]:
        """All base files."""
        yield from self._single_files.values()
        for files in self._buckets.values():
            yield from files.values()

    def put(self, table: StateTable, bucket: int, ref: FileRef | None) -> None:
        """Replace the file of a bucket; None: the bucket is empty."""
        if table.bucket is None:
            files, key = self._single_files, table.name
        else:
            files, key = self._buckets.setdefault(table.name, {}), str(bucket)
        files.pop(key, None)
        if ref is not None:
            files[key] = ref

    def base(self, index: Ref | None) -> Base:
        """The base as a manifest names it."""
        return Base(unbucketed=dict(self._single_files), index=index)

    def new_index(self, domain: str, attempt: str) -> tuple[Ref, bytes]:
        """The index of the current base files, not created yet."""
        raw = json.encode(BaseIndex(tables=self._buckets))
        return Ref(path=index_path(domain, attempt), sha256=sha256_hex(raw)), raw


async def read_base(store: Store, base: Base) -> BaseFiles:
    """The base that a manifest names."""
    index = None if base.index is None else await read_index(store, base.index)
    return BaseFiles(base, index)
