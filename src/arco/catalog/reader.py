"""The snapshot reader: the newest snapshot of a domain, or one as of a number, a commit or a time.

Round trips: 1 for the newest snapshot if the head is remembered, 3 in a new process; then 1 for the files
of a bucket that are not cached. A new process finds a table by name in 4, with its columns in 5, and by id
in 5: the index and the small tables are read in parallel to the chain's floor.

The times of manifests rise along the chain (P9), so a time is found by binary search. A commit id holds the
time of the API process that chose it; the search for a commit begins near that time and widens.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from ulid import ULID

from arco.catalog.manifest import manifests_of, read_manifest
from arco.catalog.model import AnyRow, CatalogRow, SchemaRow
from arco.catalog.snapshot import DEFAULT_CACHE_BYTES, Snapshot, StateFileCache
from arco.catalog.state_file import DecidedRows
from arco.core.errors import ArcoError, Invalid, NotFound
from arco.core.ids import Ulid, parse_ulid
from arco.core.lru_cache import LruCache
from arco.core.tasks import Task
from arco.fold.tier1 import CATALOGS, DOMAIN, SCHEMAS, TIER1
from arco.storage.chain import Chain
from arco.storage.entry import Entry
from arco.storage.store import Store

_SNAPSHOTS = 32
_ENTRIES_PER_READ = 16
# Manifests on each side of the time in a commit id that are searched: clocks differ by less.
_MAX_SEARCH = 512


class SnapshotReader:
    """Reads the manifests of one domain and the files that they name."""

    def __init__(
        self, store: Store, domain: str = DOMAIN, *, cache_bytes: int = DEFAULT_CACHE_BYTES
    ) -> None:
        self.store = store
        self.domain = domain
        self.chain = manifests_of(store, domain)
        self._files = StateFileCache(store, capacity_bytes=cache_bytes)
        self.empty_snapshot = Snapshot(self._files, None)
        self._recent = LruCache[str, Snapshot](_SNAPSHOTS)
        # Never read: the reference keeps the running task from being garbage-collected.
        self._warming_task: Task[None] | None = None

    async def head(self) -> Snapshot:
        """The newest snapshot: it includes all that was published before this call."""
        head = await self.chain.head(glimpse=self._begin)
        return self.empty_snapshot if head.entry is None else self._snapshot(head.entry)

    def remembered(self) -> Snapshot | None:
        """The snapshot that was read last, if it is fresh: costs no request, may not be the newest."""
        head = self.chain.remembered()
        return None if head is None or head.entry is None else self._snapshot(head.entry)

    async def at(self, as_of: str | None) -> Snapshot:
        """The snapshot at a number, a commit id or a time; None is the newest."""
        if as_of is None:
            return await self.head()
        version = parse_as_of(as_of)
        if isinstance(version, int):
            return await self.at_number(version)
        if isinstance(version, str):
            return self._snapshot(await search_commit(self.chain, Ulid(version)))
        return self._snapshot(await search_time(self.chain, version))

    async def at_number(self, number: int) -> Snapshot:
        """The snapshot of one manifest, or `NotFound` if it is above the head or was collected."""
        remembered = self.chain.remembered()
        if remembered is not None and remembered.number == number and remembered.entry is not None:
            return self._snapshot(remembered.entry)
        try:
            return self._snapshot(await self.chain.read(number))
        except NotFound as problem:
            raise NotFound(
                f"version {number} does not exist: it was collected, or not published yet"
            ) from problem

    async def requests_since(self, base: int, snapshot: Snapshot) -> dict[str, int]:
        """The requests that were committed above `base` up to a snapshot, with their numbers."""
        if snapshot.number <= base:
            return {}
        entries = await self.chain.history(base + 1, snapshot.number)
        return {
            request: entry.number for entry in entries for request in read_manifest(entry).requests
        }

    def learn(self, entry: Entry, rows: Mapping[str, Sequence[AnyRow]]) -> None:
        """Remember a manifest that was just published with rows that this process decided."""
        if not self.chain.learn(entry):
            return
        for name, files in read_manifest(entry).tail.items():
            if files[-1].newest == entry.number:
                table = TIER1[name]
                decided = DecidedRows(table, entry.number, rows.get(name, ()))
                self._files.keep_decided(table, files[-1], decided)
        self._snapshot(entry)

    def _snapshot(self, entry: Entry) -> Snapshot:
        sha256 = entry.sha256()
        snapshot = self._recent.get(sha256)
        if snapshot is None:
            snapshot = Snapshot(self._files, entry)
            self._recent.put(sha256, snapshot)
        return snapshot

    def _begin(self, entry: Entry) -> None:
        """Read what every look-up needs, while the chain verifies that this is the head."""
        self._warming_task = self.store.runtime.tasks.spawn(self._warm(self._snapshot(entry)))

    async def _warm(self, snapshot: Snapshot) -> None:
        try:
            await self.store.runtime.tasks.gather(
                snapshot.index(),
                snapshot.bucket(CATALOGS, "", CatalogRow),
                snapshot.bucket(SCHEMAS, "", SchemaRow),
            )
        except ArcoError:
            return  # the look-up that needs it gets the same error, and can report it


def parse_as_of(text: str) -> int | Ulid | datetime:
    """The manifest number, commit id or time in `text`, or `Invalid`."""
    if text.isascii() and text.isdigit() and len(text) <= 18:
        return int(text)
    try:
        return parse_ulid(text)
    except Invalid:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise Invalid(
            "as_of is a version number, a commit id (ULID) or a time with its zone, such as "
            f"2026-01-31T12:00:00Z; not {text[:40]!r}"
        )
    try:
        return moment.astimezone(UTC)
    except OverflowError as problem:
        raise Invalid("as_of is not a time in the years 1 to 9999") from problem


async def search_time(chain: Chain, moment: datetime) -> Entry:
    """The manifest that was the newest at a time."""
    entry = await _newest_until(chain, moment)
    if entry is None:
        raise NotFound(f"no version is kept that is as old as {moment.isoformat()}")
    return entry


async def search_commit(chain: Chain, commit_ulid: Ulid) -> Entry:
    """The manifest that published a commit."""
    head = (await chain.head()).number
    floor = await chain.floor()
    nearest = await _newest_until(chain, _time_of(commit_ulid))
    middle = floor if nearest is None else nearest.number
    low, high = middle, middle - 1
    while (low > floor or high < head) and high - low < _MAX_SEARCH:
        below = range(max(floor, low - _ENTRIES_PER_READ), low)
        higher = range(high + 1, min(head, high + _ENTRIES_PER_READ) + 1)
        for numbers in (higher, below):
            if not numbers:
                continue
            for entry in await chain.history(numbers[0], numbers[-1]):
                if read_manifest(entry).commit_ulid == commit_ulid:
                    return entry
        low, high = max(floor, low - _ENTRIES_PER_READ), min(head, high + _ENTRIES_PER_READ)
    raise NotFound(f"no version near the time of commit {commit_ulid} was published by it")


def _time_of(commit_ulid: Ulid) -> datetime:
    """The time in a ULID; one beyond the year 9999 becomes the latest time."""
    try:
        return ULID.from_str(commit_ulid).datetime
    except (ValueError, OverflowError):
        return datetime.max.replace(tzinfo=UTC)


async def _newest_until(chain: Chain, moment: datetime) -> Entry | None:
    low, high = await chain.floor(), (await chain.head()).number
    best: Entry | None = None
    while low <= high:
        middle = (low + high) // 2
        entry = await chain.read(middle)
        if entry.record.created_at <= moment:
            best, low = entry, middle + 1
        else:
            high = middle - 1
    return best
