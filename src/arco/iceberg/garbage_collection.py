"""Garbage collection: obsolete metadata, files of purged tables, old receipts and pointers.

A metadata file name begins with its pointer number. A file that no pointer names may belong to a commit
in progress, so it is deleted only when it is old and its number belongs to another file (P27). Outside
a table's own location several tables may share a folder, so there each file is read first. A purged
table in the warehouse loses its whole folder; elsewhere only files that its metadata names inside its
location. Metadata files go last, so that an interrupted purge can be continued.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from io import BytesIO
from typing import Any

import fastavro

from arco.catalog.model import TableFormat
from arco.catalog.snapshot import list_tables
from arco.catalog.unresolved_names import UNRESOLVED_NAMES
from arco.core import json
from arco.core.clock import utc
from arco.core.errors import ArcoError, Denied, Invalid, NotFound
from arco.core.json import Json
from arco.iceberg.context import IcebergContext
from arco.iceberg.engine.metadata import (
    Metadata,
    decompress,
    logged_files,
    objects_of,
    properties_of,
)
from arco.iceberg.errors import UNREADABLE
from arco.iceberg.pointer import POINTERS, pointer_of
from arco.iceberg.pointer_head import PointerHead
from arco.iceberg.table_paths import is_place_taken
from arco.iceberg.transaction_record import TransactionRecords
from arco.storage.backend import Meta
from arco.storage.chain import Chain
from arco.storage.chain_gc import collect
from arco.storage.store import Store, store_now_ms

RECEIPTS = "events/"
COMMITTED_DAYS = 90
PENDING_DAYS = 2

_NAME = re.compile(r"/(\d{5,19})-[0-9a-f-]{36}(?:\.gz)?\.metadata\.json\Z")
_DELETE = "write.metadata.delete-after-commit.enabled"


@dataclass
class TableGcReport:
    """What one garbage collection deleted, or would delete."""

    metadata: int = 0
    purged: int = 0
    receipts: int = 0
    numbers: int = 0
    problems: int = 0
    dry_run: bool = False
    failed: list[str] = field(default_factory=list)

    def total(self) -> int:
        """The number of deleted objects."""
        return self.metadata + self.purged + self.receipts + self.numbers


class TableGarbageCollector:
    """Deletes what Iceberg tables no longer need."""

    def __init__(
        self,
        context: IcebergContext,
        transactions: TransactionRecords,
        janitor: Store,
        *,
        retention_ms: int,
    ) -> None:
        self._context = context
        self._transactions = transactions
        self._janitor = janitor
        self._retention_ms = retention_ms

    async def collect(
        self,
        *,
        dry_run: bool = False,
        progress: Callable[[int], None] | None = None,
        on_error: Callable[[str, Exception], None] | None = None,
    ) -> TableGcReport:
        """Collect all tables; a failure with one does not end it and is passed to `on_error`."""
        done = TableGcReport(dry_run=dry_run)

        async def guarded(work_name: str, work: Awaitable[None]) -> None:
            try:
                await work
            except ArcoError as problem:
                done.problems += 1
                done.failed.append(work_name)
                if on_error is not None:
                    on_error(work_name, problem)

        before_ms = await store_now_ms(self._janitor) - self._retention_ms
        snapshot, count = await self._context.reader.head(), 0
        async for row in list_tables(snapshot, TableFormat.ICEBERG):
            await guarded(row.table_id, self._table(row.table_id, before_ms, done))
            count += 1
            if progress is not None:
                progress(count)
        async for row in list_tables(snapshot, TableFormat.ICEBERG, dropped=True):
            await guarded(row.table_id, self._dropped(row.table_id, done))
        await guarded("receipts", self._receipts(done))
        if not dry_run:
            chain = Chain(self._janitor, UNRESOLVED_NAMES)
            done.numbers += (await collect(chain, retention_ms=self._retention_ms)).deleted
        return done

    async def _table(self, table_id: str, before_ms: int, done: TableGcReport) -> None:
        context = self._context
        table_head = await context.heads.of(table_id)
        obsolete = obsolete_metadata_files(
            context, self._transactions, table_id, table_head, before_ms=before_ms
        )
        async for meta in obsolete:
            if not done.dry_run:
                await context.files.delete(meta.key)
            done.metadata += 1
        if not done.dry_run:
            chain = Chain(self._janitor, f"{POINTERS}/{table_id}")
            done.numbers += (await collect(chain, retention_ms=self._retention_ms)).deleted

    async def _dropped(self, table_id: str, done: TableGcReport) -> None:
        """Delete the files of a purged table at once: it cannot be undropped."""
        table_head = await self._context.heads.of(table_id)
        tombstone = table_head.pointer
        if table_head.tombstone is None or tombstone is None or not tombstone.purge:
            return
        done.purged += await purge(
            self._context, table_id, tombstone.metadata_location, dry_run=done.dry_run
        )

    async def _receipts(self, done: TableGcReport) -> None:
        """Delete old receipts, by the day in their keys."""
        today = utc(await store_now_ms(self._janitor))
        async for meta in self._janitor.list(RECEIPTS):
            day, _, rest = meta.key.removeprefix(RECEIPTS).partition("/")
            days = PENDING_DAYS if "/pending/" in f"/{rest}" else COMMITTED_DAYS
            if _is_before(day, today - timedelta(days=days)):
                if not done.dry_run:
                    await self._janitor.delete(meta.key)
                done.receipts += 1


def _is_before(day: str, moment: datetime) -> bool:
    try:
        return datetime.strptime(day, "%Y-%m-%d").date() < moment.date()  # noqa: DTZ007
    except ValueError:
        return False


async def obsolete_metadata_files(
    context: IcebergContext,
    transactions: TransactionRecords,
    table_id: str,
    table_head: PointerHead,
    *,
    before_ms: int,
) -> AsyncIterator[Meta]:
    """The metadata files of a live table, older than `before_ms`, that are not needed any more."""
    if table_head.location is None or table_head.undecided is not None:
        return
    if context.locations.owner(table_head.location) not in (None, table_id):
        return  # file numbers are those of the folder's own table, which may be undropped
    metadata = (await context.load(table_head.location)).metadata
    kept_files = {table_head.location, *logged_files(metadata)}
    gives_up = properties_of(metadata).get(_DELETE) == "true"
    folder, table_location = (
        table_head.location.rpartition("/")[0],
        str(metadata["location"]).rstrip("/"),
    )
    async for meta in context.files.list_below(folder):
        number = _number(meta.key)
        if number is None or meta.key in kept_files or meta.modified_ms > before_ms:
            continue
        if await _is_obsolete(
            context, transactions, table_id, number, meta.key, gives_up=gives_up
        ) and await _belongs_to(context, table_location, meta.key):
            yield meta


async def _is_obsolete(
    context: IcebergContext,
    transactions: TransactionRecords,
    table_id: str,
    number: int,
    location: str,
    *,
    gives_up: bool,
) -> bool:
    entry = await context.pointers.chain(table_id).find(number)
    if entry is None:
        return False  # not written yet, or collected: then its file may have been in effect
    pointer = pointer_of(entry)
    if pointer.metadata_location != location:
        return True
    if pointer.transaction is not None:
        return await transactions.outcome(pointer.transaction) is False
    return gives_up


async def _belongs_to(context: IcebergContext, table_location: str, location: str) -> bool:
    """Whether a metadata file belongs to the table at `table_location`; a location has one table."""
    if location.startswith(f"{table_location}/"):
        return True
    try:
        metadata = json.decode(decompress(await context.files.read(location)), dict)
    except (Invalid, NotFound):
        return False
    return str(metadata.get("location")).rstrip("/") == table_location


def _number(location: str) -> int | None:
    match = _NAME.search(location)
    return None if match is None else int(match[1])


async def purge(
    context: IcebergContext, table_id: str, metadata_location: str, *, dry_run: bool = False
) -> int:
    """Delete the files of a dropped table; returns how many there were."""
    try:
        metadata = (await context.load(metadata_location)).metadata
    except UNREADABLE:
        return 0  # metadata files are deleted last, so all others are gone
    table_location = str(metadata["location"])
    if await is_place_taken(context, context.locations.stored(table_location), [table_id]):
        return 0  # the location was registered again
    if context.locations.owner(table_location) == table_id:
        files = _in_folder(context, table_location, metadata_location)
    else:
        files = _named_files(context, metadata, metadata_location)
    deleted = 0
    async for location in files:
        if location.startswith(table_location.rstrip("/") + "/"):
            deleted += 1
            if not dry_run:
                await context.files.delete(location)
    context.metadata_cache.forget(metadata_location)
    return deleted


async def _in_folder(
    context: IcebergContext, table_location: str, metadata_location: str
) -> AsyncIterator[str]:
    async for meta in context.files.list_below(table_location):
        if meta.key != metadata_location:
            yield meta.key
    yield metadata_location


async def _named_files(
    context: IcebergContext, metadata: Metadata, metadata_location: str
) -> AsyncIterator[str]:
    """Data files, then manifests, then manifest lists, then metadata files."""
    read_manifests: set[str] = set()
    for snapshot in objects_of(metadata, "snapshots"):
        manifests = await _manifests(context, snapshot)
        for manifest in manifests:
            if manifest not in read_manifests:
                read_manifests.add(manifest)
                for entry in await _records(context, manifest):
                    yield str(_field(entry.get("data_file"), "file_path"))
        for manifest in manifests:
            yield manifest
        yield str(snapshot.get("manifest-list"))
    for kind in ("statistics", "partition-statistics"):
        for each in objects_of(metadata, kind):
            yield str(each.get("statistics-path"))
    for earlier in sorted(logged_files(metadata)):
        yield earlier
    yield metadata_location


async def _manifests(context: IcebergContext, snapshot: dict[str, Json]) -> list[str]:
    manifest_list = snapshot.get("manifest-list")
    if isinstance(manifest_list, str):
        return [str(each.get("manifest_path")) for each in await _records(context, manifest_list)]
    inline = snapshot.get("manifests")  # format version 1 has them here
    return [str(each) for each in inline] if isinstance(inline, list) else []


async def _records(context: IcebergContext, location: str) -> list[dict[str, Any]]:
    """The records of an Avro file; none if it is missing or may not be read."""
    try:
        raw = await context.files.read(location)
    except (NotFound, Denied):
        return []
    try:
        return [each for each in fastavro.reader(BytesIO(raw)) if isinstance(each, dict)]
    except Exception as problem:  # fastavro raises many types on bytes from elsewhere
        raise Invalid(f"{location} is not an Avro file that can be read") from problem


def _field(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, dict) else None
