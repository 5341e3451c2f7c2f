"""Garbage collection of plain Parquet tables: staged files that no version names, and old versions.

A file is deleted if it is in the folder of an attempt, is older than the retention, and is in no version
that a reader may still use. It cannot be published meanwhile: an attempt half as old is refused (P35).
Other files in a table's folder are kept, and so are dropped tables, which can be restored. Old entries are
deleted as on other chains, the floor first (P6); a floor is always an entry that lists all files.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from arco.catalog.location import managed_location
from arco.catalog.model import TableFormat, TableRow
from arco.catalog.reader import SnapshotReader
from arco.catalog.snapshot import list_tables
from arco.core.errors import ArcoError
from arco.flow.publish.content import ContentReader, paths_of
from arco.flow.publish.pointer import FULL_LIST_INTERVAL, parquet_pointer_of, pointers_of
from arco.flow.publish.tables import is_attempt_id
from arco.storage.backend import Meta
from arco.storage.chain import Chain
from arco.storage.chain_gc import collect, oldest_retained
from arco.storage.store import Store, store_now_ms

_DATA = "data/"
_FULL = "full/"


@dataclass
class ParquetGcReport:
    """What one garbage collection deleted, or would delete."""

    files: int = 0
    bytes: int = 0
    lists: int = 0  # full lists of files that old entries named
    numbers: int = 0
    problems: int = 0
    dry_run: bool = False
    failed: list[str] = field(default_factory=list)

    def total(self) -> int:
        """The number of deleted objects."""
        return self.files + self.lists + self.numbers


class ParquetGarbageCollector:
    """Deletes the garbage of plain Parquet tables, with the store as the role `janitor` sees it."""

    def __init__(self, reader: SnapshotReader, janitor: Store, *, retention_ms: int) -> None:
        self._reader = reader
        self._janitor = janitor
        self._contents = ContentReader(janitor)
        self._retention_ms = retention_ms

    async def collect(
        self,
        *,
        dry_run: bool = False,
        progress: Callable[[int], None] | None = None,
        on_error: Callable[[str, Exception], None] | None = None,
    ) -> ParquetGcReport:
        """Collect the garbage of all tables; an error in one table is passed to `on_error` and counted."""
        report, tables = ParquetGcReport(dry_run=dry_run), 0
        before_ms = await store_now_ms(self._janitor) - self._retention_ms
        async for row in list_tables(await self._reader.head(), TableFormat.PARQUET):
            try:
                await self._table(row, before_ms, report)
            except ArcoError as problem:
                report.problems += 1
                report.failed.append(row.table_id)
                if on_error is not None:
                    on_error(row.table_id, problem)
            tables += 1
            if progress is not None:
                progress(tables)
        return report

    async def _table(self, row: TableRow, before_ms: int, report: ParquetGcReport) -> None:
        location = managed_location(row.table_id)
        if row.location != location:
            return  # an external table has no versions
        chain = pointers_of(self._janitor, row.table_id)
        old = [
            meta
            async for meta in self._janitor.list(f"{location}{_DATA}")
            if meta.modified_ms <= before_ms and _is_staged(meta, location)
        ]
        # Read after the listing, so that files published meanwhile are named.
        needed = await oldest_retained(chain, retention_ms=self._retention_ms)
        named = await self._named(chain, needed) if old else set()
        for meta in old:
            if meta.key.removeprefix(location) not in named:
                await self._delete(meta, report)
                report.files += 1
                report.bytes += meta.size_bytes
        if not report.dry_run:
            ceiling = needed - needed % FULL_LIST_INTERVAL
            collected = await collect(chain, retention_ms=self._retention_ms, ceiling=ceiling)
            report.numbers += collected.deleted
        await self._delete_lists(chain, before_ms, report)

    async def _named(self, chain: Chain, oldest: int) -> set[str]:
        """The files of every version from `oldest` on."""
        head = await chain.head()
        if head.entry is None:
            return set()
        named = (await self._contents.read(chain, oldest)).paths()
        for entry in await chain.history(oldest, head.number):
            named |= paths_of(parquet_pointer_of(entry).changed)
        return named

    async def _delete_lists(self, chain: Chain, before_ms: int, report: ParquetGcReport) -> None:
        """Delete full lists whose entries are deleted or name another list."""
        floor = await chain.floor()
        async for meta in self._janitor.list(f"{chain.path}/{_FULL}"):
            number = _number(meta.key)
            if number is None or meta.modified_ms > before_ms:
                continue
            if number >= floor and not await self._is_overtaken(chain, number, meta.key):
                continue
            await self._delete(meta, report)
            report.lists += 1

    async def _is_overtaken(self, chain: Chain, number: int, key: str) -> bool:
        entry = await chain.find(number)
        if entry is None:
            return False  # a publication may be about to create it
        full = parquet_pointer_of(entry).full
        return full is None or full.key != key

    async def _delete(self, meta: Meta, report: ParquetGcReport) -> None:
        if not report.dry_run:
            await self._janitor.delete(meta.key)


def _is_staged(meta: Meta, location: str) -> bool:
    """Whether a file is in the folder of an attempt.

    Spark may leave an empty object on S3 that marks a folder; it cannot be deleted by this key.
    """
    attempt_id, _, path = meta.key.removeprefix(f"{location}{_DATA}").partition("/")
    is_folder = not meta.size_bytes and "/" not in path
    return is_attempt_id(attempt_id) and not is_folder


def _number(key: str) -> int | None:
    stem = key.rpartition("/")[2].partition("-")[0]
    return int(stem) if stem.isascii() and stem.isdigit() else None
