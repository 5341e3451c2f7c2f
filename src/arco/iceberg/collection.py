"""Garbage of Iceberg tables: spent metadata, files of purged tables, old receipts, old numbers of chains.

It runs with the janitor's role beside the reading of the API's. Everything it deletes is named by something
that has been decided for the whole retention, or was never in effect.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from arco.catalog.model import TableFormat
from arco.catalog.snapshot import list_tables
from arco.core.clock import utc
from arco.core.errors import ArcoError
from arco.iceberg.desk import Desk
from arco.iceberg.doubt import DOUBTS
from arco.iceberg.pointer import POINTERS
from arco.iceberg.purge import purge
from arco.iceberg.refusal import Refused
from arco.iceberg.spent import spent_files
from arco.iceberg.transaction import Transactions
from arco.storage.chain import Chain
from arco.storage.chain_gc import collect
from arco.storage.store import Store, store_now_ms

RECEIPTS = "events/"
COMMITTED_DAYS = 90
PENDING_DAYS = 2


@dataclass
class TableCollection:
    """What one collection did, or would do."""

    metadata: int = 0
    purged: int = 0
    receipts: int = 0
    numbers: int = 0
    problems: int = 0
    dry_run: bool = False
    failed: list[str] = field(default_factory=list)

    def total(self) -> int:
        """All that went."""
        return self.metadata + self.purged + self.receipts + self.numbers


class TableJanitor:
    """Collects what Iceberg tables leave behind."""

    def __init__(
        self, desk: Desk, transactions: Transactions, janitor: Store, *, retention_ms: int
    ) -> None:
        self._desk = desk
        self._transactions = transactions
        self._janitor = janitor
        self._retention_ms = retention_ms

    async def collect(
        self,
        *,
        dry_run: bool = False,
        progress: Callable[[int], None] | None = None,
        tell: Callable[[str, Exception], None] | None = None,
    ) -> TableCollection:
        """One collection over everything; trouble with a table does not end it, and `tell` hears of it."""
        done = TableCollection(dry_run=dry_run)

        async def guarded(what: str, work: Awaitable[None]) -> None:
            try:
                await work
            except (ArcoError, Refused) as problem:
                done.problems += 1
                done.failed.append(what)
                if tell is not None:
                    tell(what, problem)

        before_ms = await store_now_ms(self._janitor) - self._retention_ms
        snapshot, seen = await self._desk.reader.head(), 0
        async for row in list_tables(snapshot, TableFormat.ICEBERG):
            await guarded(row.table_id, self._table(row.table_id, before_ms, done))
            seen += 1
            if progress is not None:
                progress(seen)
        async for row in list_tables(snapshot, TableFormat.ICEBERG, dropped=True):
            await guarded(row.table_id, self._dropped(row.table_id, done))
        await guarded("receipts", self._receipts(done))
        if not dry_run:
            chain = Chain(self._janitor, DOUBTS)
            done.numbers += (await collect(chain, retention_ms=self._retention_ms)).deleted
        return done

    async def _table(self, table_id: str, before_ms: int, done: TableCollection) -> None:
        desk = self._desk
        standing = await desk.standings.of(table_id)
        spent = spent_files(desk, self._transactions, table_id, standing, before_ms=before_ms)
        async for meta in spent:
            if not done.dry_run:
                await desk.files.delete(meta.key)
            done.metadata += 1
        if not done.dry_run:
            chain = Chain(self._janitor, f"{POINTERS}/{table_id}")
            done.numbers += (await collect(chain, retention_ms=self._retention_ms)).deleted

    async def _dropped(self, table_id: str, done: TableCollection) -> None:
        """Files of a table that was dropped for good go at once: nobody can bring it back."""
        standing = await self._desk.standings.of(table_id)
        last = standing.pointer
        if standing.tombstone is None or last is None or not last.purge:
            return
        done.purged += await purge(
            self._desk, table_id, last.metadata_location, dry_run=done.dry_run
        )

    async def _receipts(self, done: TableCollection) -> None:
        """Receipts by the day that their folders are named after."""
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
