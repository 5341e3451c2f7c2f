"""The context of an Iceberg operation: the store, the caches and the services that all operations share."""

from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

from arco.catalog.committer import Committer
from arco.catalog.ddl import TableName
from arco.catalog.model import TableRow
from arco.catalog.publication import PublicationLog
from arco.catalog.reader import SnapshotReader
from arco.catalog.snapshot import Snapshot
from arco.catalog.unresolved_names import UnresolvedNames
from arco.core.errors import ArcoError, Denied, DeniedMetadata, NotFound
from arco.core.keyed_lock import KeyedLock
from arco.core.runtime import Runtime
from arco.core.shared_task import SharedTasks
from arco.iceberg.after_commit import AfterCommit
from arco.iceberg.engine.metadata import Metadata, decompress
from arco.iceberg.errors import missing_file
from arco.iceberg.files import TableFiles
from arco.iceberg.loaded_metadata import LoadedMetadata, MetadataCache
from arco.iceberg.location import Locations
from arco.iceberg.pointer import Pointers, pointer_of, publication_of
from arco.iceberg.pointer_head import PointerHeads
from arco.ledger.idempotency import Idempotency
from arco.storage.entry import Entry
from arco.storage.store import Store

_MAX_ROWS = 10_000


class RowCache:
    """Rows by name, cached for the snapshot of the last call; a snapshot never changes."""

    def __init__(self) -> None:
        self._snapshot: Snapshot | None = None
        self._rows: dict[TableName, TableRow | None] = {}

    async def find(self, snapshot: Snapshot, name: TableName) -> TableRow | None:
        """The row of a name in a snapshot, if there is one."""
        if snapshot is not self._snapshot or len(self._rows) >= _MAX_ROWS:
            self._snapshot, self._rows = snapshot, {}
        rows = self._rows
        if name in rows:
            return rows[name]
        try:
            row = (await snapshot.table(name)).row
        except NotFound:
            row = None
        rows[name] = row
        return row


@dataclass(frozen=True, kw_only=True)
class IcebergContext:
    """The services and caches that operations share."""

    store: Store
    reader: SnapshotReader
    committer: Committer
    idempotency: Idempotency
    files: TableFiles
    locations: Locations
    pointers: Pointers
    heads: PointerHeads
    unresolved_names: UnresolvedNames
    table_locks: KeyedLock
    metadata_cache: MetadataCache
    after_commit: AfterCommit
    published: PublicationLog = field(default_factory=lambda: PublicationLog(publication_of))
    rows: RowCache = field(default_factory=RowCache)
    config: bytes = b"{}"

    @cached_property
    def _reads(self) -> SharedTasks[str, LoadedMetadata]:
        return SharedTasks(self.runtime.tasks)

    @property
    def runtime(self) -> Runtime:
        return self.store.runtime

    async def load(self, location: str) -> LoadedMetadata:
        """A metadata file: from the cache, or by one request that concurrent callers share."""
        cached = self.metadata_cache.get(location)
        if cached is not None:
            return cached
        return await self._reads.run(location, lambda: self._read(location))

    def read_ahead(self, entry: Entry) -> None:
        """Begin to read the file that a pointer names while the chain's head is being confirmed."""
        location = pointer_of(entry).metadata_location
        if self.metadata_cache.get(location) is None:
            self.runtime.tasks.spawn(self._try(location))

    async def _try(self, location: str) -> None:
        # The operation that needs the file gets the same error.
        with suppress(ArcoError):
            await self.load(location)

    async def _read(self, location: str) -> LoadedMetadata:
        try:
            raw = decompress(await self.files.read(location))
        except NotFound as missing:
            raise missing_file(location) from missing
        except Denied as closed:
            raise DeniedMetadata(f"{location}: {closed}") from closed
        loaded = LoadedMetadata(location, raw, config=self.config)
        self.metadata_cache.put(loaded)
        return loaded

    def keep(self, location: str, raw: bytes, metadata: Metadata) -> LoadedMetadata:
        """Cache a metadata file that was just written."""
        loaded = LoadedMetadata(location, raw, config=self.config, metadata=metadata)
        self.metadata_cache.put(loaded)
        return loaded
