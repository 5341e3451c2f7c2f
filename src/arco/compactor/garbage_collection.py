"""Garbage collection: what nobody can need any more goes, with the janitor's role.

In this order, so that a crash anywhere leaves nothing but more garbage: the compactor forgets and merges;
old manifests go, the floor first (P6, P9); then what no kept manifest names, the mark first (P27); then
idempotency keys (P14), spent parts of the ledger (P16) and old leases. Everything is found by listing, so
the next run finds what a crash has left. Two janitors at once delete the same things.

In Tier 2 the watermark says what is spent: that of the oldest kept manifest, so that the state can be made
anew from it and the segments that were folded since (P20).
"""

from collections.abc import AsyncIterator, Iterable

import msgspec

from arco.catalog.epoch import collect_epochs
from arco.catalog.manifest import manifests_of
from arco.catalog.port import CompactorPort
from arco.compactor.collecting_store import CollectingStore, ObjectCount, add_object_counts
from arco.compactor.domains import folders_of
from arco.compactor.kept_manifests import KeptManifests, attempt_in_path, orphan_mark_at
from arco.compactor.progress import Progress, ProgressCounter
from arco.fold.tier1 import DOMAIN
from arco.ledger.expiry import collect_keys
from arco.ledger.sealer import collect_segments, collect_slots, seal_expired
from arco.ledger.segment import parse_segment_key
from arco.ledger.slot import Slot, kept_slots, slots_of
from arco.ledger.watermark import Watermark
from arco.storage.backend import Meta
from arco.storage.chain import Chain
from arco.storage.collect import DEFAULT_RETENTION_MS, collect
from arco.storage.store import Store
from arco.storage.store_clock import store_now_ms

_ROOTS = ("snapshots", "state", "quarantine")


class GcReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a collection has deleted, or in a dry run would delete."""

    domain: str
    dry_run: bool
    floor: int  # the oldest manifest that is kept
    manifests: ObjectCount
    commits: ObjectCount
    files: ObjectCount
    keys: ObjectCount  # claims and outcomes of idempotency keys
    segments: ObjectCount
    slots: ObjectCount
    leases: ObjectCount  # epochs, and the notes beside them
    seals: int  # streams that were ended
    mark: str | None = None  # below which unnamed files were deleted
    left: ObjectCount  # files that nobody names and that stay, as there is no compactor to publish a mark

    def total(self) -> ObjectCount:
        """All that went."""
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
    """Delete what is older than the retention and what nobody names; `store` has the janitor's role.

    Without a compactor no mark can be published: files that nobody names stay, but for those below a mark
    of an earlier collection. A dry run deletes and publishes nothing.
    """
    sweep = CollectingStore(store, ProgressCounter(progress), rehearsed=dry_run)
    work = _Work(sweep, domain, retention_ms)
    last = (await work.chain.head()).number
    if compactor is not None and not dry_run and domain == DOMAIN:
        await compactor.merge()
    await collect(work.chain, retention_ms=retention_ms)
    await work.kept.read_on(work.chain)
    await work.collect_files(compactor, dry_run=dry_run)
    await work.collect_records(last)
    if domain == DOMAIN:
        await collect_keys(sweep)
        await work.collect_unnamed_segments()
    else:
        await work.collect_folded_segments()
    await work.collect_leases()
    return work.result(dry_run=dry_run)


class _Work:
    """One collection on its way."""

    def __init__(self, sweep: CollectingStore, domain: str, retention_ms: int) -> None:
        self._sweep = sweep
        self._domain = domain
        self._retention_ms = retention_ms
        self.chain = manifests_of(sweep, domain)
        self.kept = KeptManifests()
        self._mark = ""
        self._left = ObjectCount()

    async def collect_files(self, compactor: CompactorPort | None, *, dry_run: bool) -> None:
        """Delete files that no kept manifest names, once a mark says that none will."""
        wanted = orphan_mark_at(await store_now_ms(self._sweep))
        unnamed = [meta async for meta in self._unnamed()]
        self._mark = self.kept.mark
        due = [meta for meta in unnamed if self._mark <= (attempt_in_path(meta.key) or "") < wanted]
        if compactor is None or self.kept.head < 0:
            for meta in due:
                self._left.add(meta)
        elif due:
            if not dry_run:
                await compactor.mark_orphans(wanted, self._domain)
                # Whoever has published between our two looks may have named some of them.
                await self.kept.read_on(self.chain)
            self._mark = wanted if dry_run else self.kept.mark
        for meta in unnamed:
            if _is_below(meta, self._mark) and meta.key not in self.kept.files:
                await self._sweep.delete(meta.key)

    async def collect_records(self, last: int) -> None:
        """Delete commit records that no kept manifest names, and that none can name any more.

        Those above `last`, the head that we found, wait until the next time: what our own merge and mark
        have overtaken is nothing that a dry run could know of.
        """
        async for meta in self._sweep.list(f"commits/{self._domain}/"):
            if not self.kept.may_name(meta.key, last):
                await self._sweep.delete(meta.key)

    async def collect_unnamed_segments(self) -> None:
        """Tier 1: delete old segments that no kept commit names, and end streams that were left."""
        before_ms = await store_now_ms(self._sweep) - self._retention_ms
        streams = await list_streams(self._sweep, self._domain)
        await seal_and_collect_streams(
            self._sweep, self._domain, streams, retention_ms=self._retention_ms
        )
        for seal in self._sweep.made:
            add_segment(streams, seal)  # so what it was created behind is not the highest any more
        if not has_old_segments(streams, before_ms):
            return
        # Whoever commits from now on has appended after the moment that makes a segment old, or long
        # before it: then its events travelled with the call, and nothing but their copy is gone.
        await self.kept.read_on(self.chain)
        named = await self.kept.segments(self.chain)
        for meta in find_spent_segments(streams, before_ms=before_ms, named=named):
            await self._sweep.delete(meta.key)

    async def collect_folded_segments(self) -> None:
        """Tier 2: end streams that were left, and delete what the oldest kept manifest has folded."""
        await self.kept.read_on(self.chain)
        slots = slots_of(self._sweep, self._domain)
        await seal_expired(slots, self._domain, self.kept.newest)
        spent = self.kept.oldest
        await collect_segments(slots, self._domain, spent, retention_ms=self._retention_ms)
        await collect_slots(slots, spent, retention_ms=self._retention_ms)

    async def collect_leases(self) -> None:
        """Delete old epochs, and the notes beside those that are gone."""
        await collect_epochs(self._sweep, self._domain, retention_ms=self._retention_ms)

    def result(self, *, dry_run: bool) -> GcReport:
        """What was done."""
        gone = self._sweep.gone
        return GcReport(
            domain=self._domain,
            dry_run=dry_run,
            floor=self.kept.floor,
            manifests=gone.get("manifests", ObjectCount()),
            commits=gone.get("commits", ObjectCount()),
            files=add_object_counts(gone.get(root, ObjectCount()) for root in _ROOTS),
            keys=gone.get("_catalog", ObjectCount()),
            segments=gone.get("ledger", ObjectCount()),
            slots=gone.get("sequence", ObjectCount()),
            leases=gone.get("locks", ObjectCount()),
            seals=sum(made.key.startswith("ledger/") for made in self._sweep.made),
            mark=self._mark or None,
            left=self._left,
        )

    async def _unnamed(self) -> AsyncIterator[Meta]:
        for folder in folders_of(self._domain):
            async for meta in self._sweep.list(folder):
                if attempt_in_path(meta.key) is not None and meta.key not in self.kept.files:
                    yield meta


def _is_below(meta: Meta, mark: str) -> bool:
    attempt = attempt_in_path(meta.key)
    return attempt is not None and attempt < mark


Streams = dict[str, dict[int, Meta]]


async def list_streams(store: Store, domain: str) -> Streams:
    """Every stream with its segments; what strangers have put there is left out."""
    streams: Streams = {}
    async for meta in store.list(f"ledger/{domain}/"):
        add_segment(streams, meta)
    return streams


def add_segment(streams: Streams, meta: Meta) -> None:
    """Take a segment in, if it is one."""
    place = parse_segment_key(meta.key)
    if place is not None:
        _, stream, seq = place
        streams.setdefault(stream, {})[seq] = meta


def find_spent_segments(streams: Streams, *, before_ms: int, named: Iterable[str]) -> list[Meta]:
    """The segments that may go."""
    kept = set(named)
    return [
        meta
        for segments in streams.values()
        for seq, meta in segments.items()
        if seq < max(segments) and meta.modified_ms <= before_ms and meta.key not in kept
    ]


def has_old_segments(streams: Streams, before_ms: int) -> bool:
    """Whether any segment may have to go: only then is it worth while to read who names them."""
    return bool(find_spent_segments(streams, before_ms=before_ms, named=()))


async def seal_and_collect_streams(
    store: Store, domain: str, streams: Streams, *, retention_ms: int
) -> None:
    """Seal the streams that are past their end, and collect the slots of those that are sealed.

    `streams` was listed before this call: a stream is registered before its first segment, so none of them
    is unknown here.
    """
    slots = slots_of(store, domain)
    registered = await kept_slots(slots)
    sealed = await _seal(slots, domain, registered, streams)
    still_open = (number for number, slot in registered.items() if slot.stream not in sealed)
    ceiling = min(still_open, default=max(registered, default=0))
    await collect(slots, retention_ms=retention_ms, ceiling=ceiling)


async def seal_expired_streams(store: Store, domain: str, streams: Streams) -> None:
    """Seal the streams that are past their end; `streams` was listed before this call."""
    slots = slots_of(store, domain)
    await _seal(slots, domain, await kept_slots(slots), streams)


async def _seal(
    slots: Chain, domain: str, registered: dict[int, Slot], streams: Streams
) -> set[str]:
    # The last segment is looked for from the highest that was listed: those below it may be gone.
    highest = {
        slot.stream: max(streams[slot.stream]) - 1
        for slot in registered.values()
        if slot.stream in streams
    }
    return set(await seal_expired(slots, domain, Watermark(0, highest)))
