"""Garbage collection: deletes what no reader or writer can need any more, with the janitor's role.

The order makes a crash leave only more garbage: the compactor merges and removes expired rows; old
manifests go, after the floor is raised (P6, P9); then files that no kept manifest names, after the orphan
mark (P27); then idempotency keys (P14), spent segments (P16) and old leases. All of it is found by listing,
so the next run finds what a crash left. Two collections at once delete the same objects.

In event domains a segment is spent once the oldest kept manifest has folded it, so that the state can be
rebuilt from that manifest and the later segments (P20). In the catalog domain an event counts only if a
commit names it: a segment is spent when it is older than the retention and no kept commit names it. The
highest segment of a stream stays: it is its seal, or the one before the seal to come (P16).
"""

from collections.abc import AsyncIterator, Iterable

import msgspec

from arco.catalog.compactor_port import CompactorPort
from arco.catalog.epoch import collect_epochs
from arco.catalog.manifest import manifests_of
from arco.compactor.collecting_store import (
    CollectingStore,
    ObjectCount,
    Progress,
    ProgressCounter,
    add_object_counts,
)
from arco.compactor.domains import folders_of
from arco.compactor.kept_manifests import KeptManifests, attempt_in_path, orphan_mark_at
from arco.fold.tier1 import DOMAIN
from arco.ledger.gc import collect_keys, collect_segments, collect_slots, seal_expired_streams
from arco.ledger.segment import parse_segment_key
from arco.ledger.stream import Slot, Watermark, read_slots, slot_chain
from arco.storage.backend import Meta
from arco.storage.chain import Chain
from arco.storage.chain_gc import DEFAULT_RETENTION_MS, collect
from arco.storage.store import Store, store_now_ms

_ROOTS = ("snapshots", "state", "quarantine")


class GcReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a collection deleted, or would delete in a dry run."""

    domain: str
    dry_run: bool
    floor: int  # the oldest manifest that is kept
    manifests: ObjectCount
    commits: ObjectCount
    files: ObjectCount
    keys: ObjectCount  # of idempotency: claims and outcomes
    segments: ObjectCount
    slots: ObjectCount
    leases: ObjectCount  # epochs, and the notes beside them
    seals: int  # streams that were sealed
    mark: str | None = None  # the orphan mark: unnamed files below it were deleted
    left: ObjectCount  # unnamed files that stay, as there is no compactor to publish a mark

    def total(self) -> ObjectCount:
        """The sum of all that was deleted."""
        return add_object_counts(
            (
                *(self.manifests, self.commits, self.files, self.keys),
                *(self.segments, self.slots, self.leases),
            )
        )


async def collect_garbage(
    store: Store,
    compactor: CompactorPort | None,
    *,
    domain: str = DOMAIN,
    retention_ms: int = DEFAULT_RETENTION_MS,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> GcReport:
    """Collect the garbage of one domain; `store` has the janitor's role.

    Without a compactor no orphan mark can be published: unnamed files stay, except those below the mark of
    an earlier collection. A dry run deletes and publishes nothing.
    """
    counting = CollectingStore(store, ProgressCounter(progress), dry_run=dry_run)
    work = _Collection(counting, domain, retention_ms)
    head_number = (await work.chain.head()).number
    if compactor is not None and not dry_run and domain == DOMAIN:
        await compactor.merge()
    await collect(work.chain, retention_ms=retention_ms)
    await work.kept_manifests.read_on(work.chain)
    await work.collect_files(compactor, dry_run=dry_run)
    await work.collect_records(head_number)
    if domain == DOMAIN:
        await collect_keys(counting)
        await work.collect_unnamed_segments()
    else:
        await work.collect_folded_segments()
    await work.collect_leases()
    return work.result(dry_run=dry_run)


class _Collection:
    """A collection in progress."""

    def __init__(self, store: CollectingStore, domain: str, retention_ms: int) -> None:
        self._store = store
        self._domain = domain
        self._retention_ms = retention_ms
        self.chain = manifests_of(store, domain)
        self.kept_manifests = KeptManifests()
        self._mark = ""
        self._unnamed_left = ObjectCount()

    async def collect_files(self, compactor: CompactorPort | None, *, dry_run: bool) -> None:
        """Delete files that no kept manifest names, once a mark ensures that none will."""
        new_mark = orphan_mark_at(await store_now_ms(self._store))
        unnamed = [meta async for meta in self._unnamed()]
        self._mark = self.kept_manifests.mark
        due = [
            meta for meta in unnamed if self._mark <= (attempt_in_path(meta.key) or "") < new_mark
        ]
        if compactor is None or self.kept_manifests.head < 0:
            for meta in due:
                self._unnamed_left.add(meta)
        elif due:
            if not dry_run:
                await compactor.mark_orphans(new_mark, self._domain)
                # Manifests that were published since the first read may name some of the files.
                await self.kept_manifests.read_on(self.chain)
            self._mark = new_mark if dry_run else self.kept_manifests.mark
        for meta in unnamed:
            if _is_below(meta, self._mark) and meta.key not in self.kept_manifests.files:
                await self._store.delete(meta.key)

    async def collect_records(self, head_number: int) -> None:
        """Delete commit records that no kept manifest names, and that none can name any more.

        Records above `head_number`, the head at the start, are left for the next collection: the merge
        and the mark of this one changed them, which a dry run could not predict.
        """
        async for meta in self._store.list(f"commits/{self._domain}/"):
            if not self.kept_manifests.may_name(meta.key, head_number):
                await self._store.delete(meta.key)

    async def collect_unnamed_segments(self) -> None:
        """Catalog domain: delete old segments that no kept commit names, and seal abandoned streams."""
        before_ms = await store_now_ms(self._store) - self._retention_ms
        streams = await list_streams(self._store, self._domain)
        await seal_and_collect_streams(
            self._store, self._domain, streams, retention_ms=self._retention_ms
        )
        for seal in self._store.created:
            add_segment(streams, seal)  # so the segment before it is not the highest any more
        if not has_old_segments(streams, before_ms):
            return
        # A commit from now on names young segments, or it comes from a process that was suspended for long:
        # its events travel with the call, so only a copy of them is deleted.
        await self.kept_manifests.read_on(self.chain)
        named_segments = await self.kept_manifests.segments(self.chain)
        for meta in find_spent_segments(
            streams, before_ms=before_ms, named_segments=named_segments
        ):
            await self._store.delete(meta.key)

    async def collect_folded_segments(self) -> None:
        """Event domain: seal abandoned streams, and delete what the oldest kept manifest has folded."""
        await self.kept_manifests.read_on(self.chain)
        slots = slot_chain(self._store, self._domain)
        await seal_expired_streams(slots, self._domain, self.kept_manifests.newest)
        spent = self.kept_manifests.oldest
        await collect_segments(slots, self._domain, spent, retention_ms=self._retention_ms)
        await collect_slots(slots, spent, retention_ms=self._retention_ms)

    async def collect_leases(self) -> None:
        """Delete old epochs, and the notes of deleted ones."""
        await collect_epochs(self._store, self._domain, retention_ms=self._retention_ms)

    def result(self, *, dry_run: bool) -> GcReport:
        """The report."""
        deleted = self._store.deleted
        return GcReport(
            domain=self._domain,
            dry_run=dry_run,
            floor=self.kept_manifests.floor,
            manifests=deleted.get("manifests", ObjectCount()),
            commits=deleted.get("commits", ObjectCount()),
            files=add_object_counts(deleted.get(root, ObjectCount()) for root in _ROOTS),
            keys=deleted.get("_catalog", ObjectCount()),
            segments=deleted.get("ledger", ObjectCount()),
            slots=deleted.get("sequence", ObjectCount()),
            leases=deleted.get("locks", ObjectCount()),
            seals=sum(each.key.startswith("ledger/") for each in self._store.created),
            mark=self._mark or None,
            left=self._unnamed_left,
        )

    async def _unnamed(self) -> AsyncIterator[Meta]:
        for folder in folders_of(self._domain):
            async for meta in self._store.list(folder):
                if (
                    attempt_in_path(meta.key) is not None
                    and meta.key not in self.kept_manifests.files
                ):
                    yield meta


def _is_below(meta: Meta, mark: str) -> bool:
    attempt = attempt_in_path(meta.key)
    return attempt is not None and attempt < mark


Streams = dict[str, dict[int, Meta]]


async def list_streams(store: Store, domain: str) -> Streams:
    """Every stream with its segments; other objects are ignored."""
    streams: Streams = {}
    async for meta in store.list(f"ledger/{domain}/"):
        add_segment(streams, meta)
    return streams


def add_segment(streams: Streams, meta: Meta) -> None:
    """Add an object, if it is a segment."""
    position = parse_segment_key(meta.key)
    if position is not None:
        _, stream, seq = position
        streams.setdefault(stream, {})[seq] = meta


def find_spent_segments(
    streams: Streams, *, before_ms: int, named_segments: Iterable[str]
) -> list[Meta]:
    """The segments that may be deleted."""
    kept_keys = set(named_segments)
    return [
        meta
        for segments in streams.values()
        for seq, meta in segments.items()
        if seq < max(segments) and meta.modified_ms <= before_ms and meta.key not in kept_keys
    ]


def has_old_segments(streams: Streams, before_ms: int) -> bool:
    """Whether any segment may be deleted: only then is it worth reading which commits name them."""
    return bool(find_spent_segments(streams, before_ms=before_ms, named_segments=()))


async def seal_and_collect_streams(
    store: Store, domain: str, streams: Streams, *, retention_ms: int
) -> None:
    """Seal expired streams, and collect the slots of sealed ones.

    `streams` was listed before this call: a stream is registered before its first segment, so all of them
    have slots.
    """
    slots = slot_chain(store, domain)
    registered = await read_slots(slots)
    sealed = await _seal(slots, domain, registered, streams)
    still_open = (number for number, slot in registered.items() if slot.stream not in sealed)
    ceiling = min(still_open, default=max(registered, default=0))
    await collect(slots, retention_ms=retention_ms, ceiling=ceiling)


async def seal_listed_streams(store: Store, domain: str, streams: Streams) -> None:
    """Seal expired streams; `streams` was listed before this call."""
    slots = slot_chain(store, domain)
    await _seal(slots, domain, await read_slots(slots), streams)


async def _seal(
    slots: Chain, domain: str, registered: dict[int, Slot], streams: Streams
) -> set[str]:
    # The search for the last segment starts at the highest listed one: those below may be deleted.
    highest = {
        slot.stream: max(streams[slot.stream]) - 1
        for slot in registered.values()
        if slot.stream in streams
    }
    return set(await seal_expired_streams(slots, domain, Watermark(0, highest)))
