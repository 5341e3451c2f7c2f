"""The Iceberg catalog of a workspace, assembled from its parts."""

from arco.catalog.change import DEFAULT_CATALOG
from arco.catalog.committer import Committer
from arco.catalog.location import is_id
from arco.catalog.model import CatalogRow
from arco.catalog.publication import PublicationLog
from arco.catalog.snapshot import Snapshot
from arco.catalog.unresolved_names import UnresolvedNames
from arco.core import json
from arco.core.errors import NotFound
from arco.core.keyed_lock import KeyedLock
from arco.events.table import DOMAIN
from arco.iceberg.after_commit import AfterCommit
from arco.iceberg.context import IcebergContext
from arco.iceberg.errors import no_such_warehouse
from arco.iceberg.files import TableFiles
from arco.iceberg.garbage_collection import TableGarbageCollector
from arco.iceberg.loaded_metadata import MetadataCache
from arco.iceberg.location import Locations
from arco.iceberg.multi_table_commit import Transactions
from arco.iceberg.namespaces import Namespaces
from arco.iceberg.partition_versions import IcebergVersions
from arco.iceberg.pointer import Pointers, publication_of
from arco.iceberg.pointer_head import PointerHeads
from arco.iceberg.publication import IcebergFences
from arco.iceberg.reconciler import Reconciler
from arco.iceberg.table_format import IcebergTableFormat
from arco.iceberg.tables import Tables
from arco.iceberg.transaction_record import TransactionRecords
from arco.iceberg.views import Views
from arco.ledger.idempotency import Idempotency
from arco.ledger.writer import LedgerWriter
from arco.storage.chain_gc import DEFAULT_RETENTION_MS
from arco.storage.store import Store

DEFAULT_CACHE_BYTES = 256 * 1024 * 1024


class Iceberg:
    """The Iceberg catalog of a workspace."""

    def __init__(
        self, context: IcebergContext, records: TransactionRecords, own: LedgerWriter | None = None
    ) -> None:
        self.context = context
        self._own_writer = own
        self._records = records
        self.namespaces = Namespaces(context)
        self.tables = Tables(context)
        self.views = Views(context)
        self.table_format = IcebergTableFormat(context)
        self.transactions = Transactions(context, records)
        self.reconciler = Reconciler(context, records)
        self.fences = IcebergFences(context)
        self.versions = IcebergVersions(context)
        self._named_in: Snapshot | None = None
        self._names: dict[str, str] = {}  # of catalogs by id, in that snapshot

    async def warehouse(self, name: str | None) -> CatalogRow:
        """The catalog that a client names as its warehouse."""
        catalog_name = name or DEFAULT_CATALOG
        try:
            return (await (await self.context.reader.head()).catalog(catalog_name)).row
        except NotFound as missing:
            raise no_such_warehouse(catalog_name) from missing

    async def catalog(self, prefix: str) -> str:
        """The name of the catalog for a path prefix, which is its id or its name."""
        snapshot = self.context.reader.remembered() or await self.context.reader.head()
        if snapshot is self._named_in and prefix in self._names:
            return self._names[prefix]
        if not is_id(prefix):
            return (await self.warehouse(prefix)).name
        catalog = await snapshot.catalog_by_id(prefix)
        if catalog is None or catalog.row.dropped_at is not None:
            catalog = await (await self.context.reader.head()).catalog_by_id(prefix)
        if catalog is None or catalog.row.dropped_at is not None:
            raise no_such_warehouse(prefix)
        if snapshot is not self._named_in:
            self._named_in, self._names = snapshot, {}
        self._names[prefix] = catalog.row.name
        return catalog.row.name

    def janitor(self, store: Store, *, retention_ms: int) -> TableGarbageCollector:
        """The garbage collector of tables, on a store with the janitor's role."""
        return TableGarbageCollector(self.context, self._records, store, retention_ms=retention_ms)

    async def close(self) -> None:
        """Wait for running steps and close the chains."""
        await self.context.after_commit.close()
        if self._own_writer is not None:
            await self._own_writer.close()
        await self.context.pointers.close()
        await self.context.unresolved_names.chain.close()


def open_iceberg(
    committer: Committer,
    idempotency: Idempotency,
    files: TableFiles,
    locations: Locations,
    *,
    config: dict[str, str] | None = None,
    cache_bytes: int = DEFAULT_CACHE_BYTES,
    writer: LedgerWriter | None = None,
    retention_ms: int = DEFAULT_RETENTION_MS,
) -> Iceberg:
    """Assemble the Iceberg catalog of a workspace; without a `writer` of events it opens one.

    `retention_ms` is how long old pointers are kept: task attempts that are half as old can no longer
    be published.
    """
    reader = committer.reader
    store = reader.store
    pointers, records = Pointers(store), TransactionRecords(store)
    event_writer = LedgerWriter(store, DOMAIN) if writer is None else writer
    context = IcebergContext(
        store=store,
        reader=reader,
        committer=committer,
        idempotency=idempotency,
        files=files,
        locations=locations,
        pointers=pointers,
        heads=PointerHeads(pointers, records, store.runtime),
        unresolved_names=UnresolvedNames(store),
        table_locks=KeyedLock(store.runtime.tasks),
        metadata_cache=MetadataCache(cache_bytes),
        after_commit=AfterCommit(store, event_writer, committer, files),
        published=PublicationLog(publication_of, retention_ms=retention_ms),
        config=json.encode(config or {}),
    )
    return Iceberg(context, records, event_writer if writer is None else None)
