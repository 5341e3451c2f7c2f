"""Garbage of Iceberg tables: spent metadata, files of purged tables, old receipts, old numbers of chains.

It runs with the janitor's role beside the reading of the API's. Everything it deletes is named by something
that has been decided for the whole retention, or was never in effect.
"""
# DOC spent: """Metadata files that may go: those that were never in effect, and those that their table has given up.
#
# A file's name begins with the number that it was meant for. One that no pointer names may belong to an
# attempt that is still under way, so it goes only once its number is another's (P27) and it is old. Outside
# of a table's own place several tables may keep their files in one folder, so there each is looked into.
# """
# DOC purge: """Purging: removing the files of a table that was dropped for good.
#
# A table in our warehouse has a folder of its own, and all of it goes. In a declared place other things may
# lie beside it, so there only files go that the table's metadata name, as far as they lie in its folder.
# Metadata go last: whoever is interrupted finds again what is left.
# """

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from io import BytesIO
from typing import Any

import fastavro

from arco.catalog.model import TableFormat
from arco.catalog.walk import every_table
from arco.core import json
from arco.core.clock import utc
from arco.core.errors import ArcoError, Denied, Invalid, NotFound
from arco.core.json import Json
from arco.iceberg.context import Desk
from arco.iceberg.engine.metadata import Metadata, logged_files, objects_of, properties_of, unpacked
from arco.iceberg.errors import Refused
from arco.iceberg.pointer import POINTERS, pointer_of
from arco.iceberg.pointer_head import Standing
from arco.iceberg.table_paths import is_taken
from arco.iceberg.transaction_record import Transactions
from arco.iceberg.unresolved_names import DOUBTS
from arco.storage.backend import Meta
from arco.storage.chain import Chain
from arco.storage.collect import collect
from arco.storage.store import Store
from arco.storage.store_clock import store_now_ms

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
        async for row in every_table(snapshot, TableFormat.ICEBERG):
            await guarded(row.table_id, self._table(row.table_id, before_ms, done))
            seen += 1
            if progress is not None:
                progress(seen)
        async for row in every_table(snapshot, TableFormat.ICEBERG, dropped=True):
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


_NAME = re.compile(r"/(\d{5,19})-[0-9a-f-]{36}(?:\.gz)?\.metadata\.json\Z")
_DELETE = "write.metadata.delete-after-commit.enabled"


async def spent_files(
    desk: Desk, transactions: Transactions, table_id: str, standing: Standing, *, before_ms: int
) -> AsyncIterator[Meta]:
    """The metadata files of a live table that nobody will ask for again, made before a moment."""
    if standing.location is None or standing.undecided is not None:
        return
    if desk.locations.owner(standing.location) not in (None, table_id):
        return  # numbers in names count for whose folder it is, and that table may come back
    metadata = (await desk.load(standing.location)).metadata
    kept = {standing.location, *logged_files(metadata)}
    gives_up = properties_of(metadata).get(_DELETE) == "true"
    folder, home = standing.location.rpartition("/")[0], str(metadata["location"]).rstrip("/")
    async for meta in desk.files.list_below(folder):
        number = _number(meta.key)
        if number is None or meta.key in kept or meta.modified_ms > before_ms:
            continue
        if await _is_spent(
            desk, transactions, table_id, number, meta.key, gives_up=gives_up
        ) and await _is_of(desk, home, meta.key):
            yield meta


async def _is_spent(
    desk: Desk,
    transactions: Transactions,
    table_id: str,
    number: int,
    location: str,
    *,
    gives_up: bool,
) -> bool:
    entry = await desk.pointers.chain(table_id).find(number)
    if entry is None:
        return False  # not there yet, or collected: then its file may have been in effect
    pointer = pointer_of(entry)
    if pointer.metadata_location != location:
        return True
    if pointer.transaction is not None:
        return await transactions.outcome(pointer.transaction) is False
    return gives_up


async def _is_of(desk: Desk, home: str, location: str) -> bool:
    """Whether a metadata file is of the table that lies at `home`; no two tables lie at one place."""
    if location.startswith(f"{home}/"):
        return True
    try:
        found = json.decode(unpacked(await desk.files.read(location)), dict)
    except (Invalid, NotFound):
        return False
    return str(found.get("location")).rstrip("/") == home


def _number(location: str) -> int | None:
    found = _NAME.search(location)
    return None if found is None else int(found[1])


async def purge(desk: Desk, table_id: str, metadata_location: str, *, dry_run: bool = False) -> int:
    """Remove the files of a dropped table; how many were there to be removed."""
    try:
        metadata = (await desk.load(metadata_location)).metadata
    except Refused:
        return 0  # the metadata are gone, so all before them is, too
    home = str(metadata["location"])
    if await is_taken(desk, home, [table_id]):
        return 0  # registered again before they were gone
    if desk.locations.owner(home) == table_id:
        files = _in_folder(desk, home, metadata_location)
    else:
        files = _named(desk, metadata, metadata_location)
    gone = 0
    async for location in files:
        if location.startswith(home.rstrip("/") + "/"):
            gone += 1
            if not dry_run:
                await desk.files.delete(location)
    desk.shelf.forget(metadata_location)
    return gone


async def _in_folder(desk: Desk, home: str, last: str) -> AsyncIterator[str]:
    async for meta in desk.files.list_below(home):
        if meta.key != last:
            yield meta.key
    yield last


async def _named(desk: Desk, metadata: Metadata, last: str) -> AsyncIterator[str]:
    """Data files, then manifests, then lists of them, then metadata."""
    seen: set[str] = set()
    for snapshot in objects_of(metadata, "snapshots"):
        manifests = await _manifests(desk, snapshot)
        for manifest in manifests:
            if manifest not in seen:
                seen.add(manifest)
                for entry in await _records(desk, manifest):
                    yield str(_field(entry.get("data_file"), "file_path"))
        for manifest in manifests:
            yield manifest
        yield str(snapshot.get("manifest-list"))
    for kind in ("statistics", "partition-statistics"):
        for each in objects_of(metadata, kind):
            yield str(each.get("statistics-path"))
    for earlier in sorted(logged_files(metadata)):
        yield earlier
    yield last


async def _manifests(desk: Desk, snapshot: dict[str, Json]) -> list[str]:
    listed = snapshot.get("manifest-list")
    if isinstance(listed, str):
        return [str(each.get("manifest_path")) for each in await _records(desk, listed)]
    inline = snapshot.get("manifests")  # the first version of the format has them here
    return [str(each) for each in inline] if isinstance(inline, list) else []


async def _records(desk: Desk, location: str) -> list[dict[str, Any]]:
    """The records of an Avro file; none if it is gone, or is none of ours to read."""
    try:
        raw = await desk.files.read(location)
    except (NotFound, Denied):
        return []
    try:
        return [each for each in fastavro.reader(BytesIO(raw)) if isinstance(each, dict)]
    except Exception as problem:  # whatever the reader stumbles over in bytes that anybody wrote
        raise Invalid(f"{location} is not an Avro file that can be read") from problem


def _field(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, dict) else None
