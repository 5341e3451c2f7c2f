"""Anti-entropy: lists what is there, and holds it against slots, watermarks and manifests (law 6).

All that Arco does otherwise it does by known keys, so it would never notice what was lost beside them.
This looks for it: lost segments, streams that nobody folds, files that are missing or that nobody names,
hints that lie. It repairs what is safe: it ends streams that their writers have left, and writes hints anew
that are far behind. The rest it tells, with what to do about it.

Things move while it looks. So it lists before it reads what vouches for the list, looks for what is missing
by its key, and begins again if something was collected meanwhile.
"""

from collections.abc import Iterable

from arco.catalog.manifest import manifests_of
from arco.compactor.domains import folders_of
from arco.compactor.extent import measure
from arco.compactor.inspection import Inspection, Trouble, TroubleKind
from arco.compactor.meter import Meter, Progress
from arco.compactor.orphans import Kept, attempt_of, mark_at
from arco.compactor.report import ProblemKind, Wrong
from arco.compactor.spent import Streams, add_segment, seal_dead
from arco.compactor.stream_check import Slots, StreamCheck
from arco.compactor.sweep import Pile, Sweep
from arco.core.errors import Corrupt, NotFound
from arco.fold.tier1 import DOMAIN
from arco.ledger.gc import seal_expired_streams
from arco.ledger.stream import read_slots, slot_chain
from arco.storage.backend import Meta
from arco.storage.chain import Chain
from arco.storage.hint import read_hint
from arco.storage.roles import Verb, may
from arco.storage.store import Store, store_now_ms

PATIENCE_MS = 15 * 60_000  # events are published within seconds; after this somebody should look

_FAR = 64  # numbers behind the head: a hint is written every 8 numbers, so it was lost or is stuck
_AT_ONCE = 16
_MOST = 20  # troubles of a kind that are told one by one
_ROUNDS = 3

_RESTORE = "Stop writing to this store, and restore that object from a backup."


async def inspect(
    store: Store,
    domain: str,
    *,
    repair: bool = True,
    patience_ms: int = PATIENCE_MS,
    progress: Progress | None = None,
) -> Inspection:
    """Look at all of a domain that can be listed; `store` has the janitor's role."""
    for _ in range(_ROUNDS):
        work = _Look(store, domain, Meter(progress), repair=repair)
        found = await work.run(patience_ms)
        if found.ok or not await work.has_moved():
            break
    return found


class _Look:
    """One inspection on its way."""

    def __init__(self, store: Store, domain: str, meter: Meter, *, repair: bool) -> None:
        # Counts what is sealed; without repairs, nothing but looks sealed.
        self._sweep = Sweep(store, Meter(None), rehearsed=not repair)
        self._store = store
        self._domain = domain
        self._meter = meter
        self._repair = repair
        self._chain = manifests_of(store, domain)
        self._kept = Kept()
        self._slots = Slots(0, {})
        self._listed: Streams = {}
        self._troubles: list[Trouble] = []
        self._hints: list[str] = []
        self._waiting: list[Meta] = []
        self._orphans = Pile()

    async def run(self, patience_ms: int) -> Inspection:
        """Everything in turn; what rests on something that is wrong is left out."""
        now_ms = await store_now_ms(self._store)
        await self._list_segments()
        if await self._read_manifests() and await self._read_slots():
            await self._seal()
            await self._check_streams()
            await self._check_files(mark_at(now_ms))
        lag_ms = max((now_ms - meta.modified_ms for meta in self._waiting), default=None)
        if lag_ms is not None and lag_ms > patience_ms:
            self._note_lag(lag_ms)
        return Inspection(
            domain=self._domain,
            head=self._kept.head,
            streams=len(self._kept.newest.open),
            segments=sum(map(len, self._listed.values())),
            waiting=len(self._waiting),
            waiting_bytes=sum(meta.size_bytes for meta in self._waiting),
            lag_ms=lag_ms,
            files=len(self._kept.files),
            orphans=self._orphans,
            sealed=tuple(meta.key.split("/")[2] for meta in self._sweep.made),
            hints=tuple(self._hints),
            troubles=tuple(_shortened(self._troubles)),
        )

    async def has_moved(self) -> bool:
        """Whether something was collected since we began: then what is missing may rightly be."""
        try:
            return await self._chain.floor() > self._kept.floor
        except Corrupt:
            return False

    async def _list_segments(self) -> None:
        async for meta in self._store.list(f"ledger/{self._domain}/"):
            add_segment(self._listed, meta)
            self._meter.step()

    async def _read_manifests(self) -> bool:
        if not await self._check_chain(self._chain, ProblemKind.MANIFEST):
            return False
        try:
            await self._kept.read_on(self._chain)
        except Corrupt as problem:
            self._trouble(TroubleKind.CHAIN, f"{self._chain.path}/", str(problem), _RESTORE)
            return False
        return True

    async def _read_slots(self) -> bool:
        chain = slot_chain(self._store, self._domain)
        if not await self._check_chain(chain, ProblemKind.LINK):
            return False
        try:
            slots = await read_slots(chain)
            head, floor = await chain.head(), await chain.floor()
        except Corrupt as problem:
            self._trouble(TroubleKind.CHAIN, f"{chain.path}/", str(problem), _RESTORE)
            return False
        self._slots = Slots(floor, {slot.stream: number for number, slot in slots.items()})
        frontier = self._kept.newest.frontier
        if frontier > head.number + 1:
            passed = f"manifest {self._kept.head} has passed {frontier} slots"
            fault = f"{passed}, and there are only {head.number + 1}"
            self._trouble(TroubleKind.WATERMARK, chain.key(head.number + 1), fault, _RESTORE)
        return True

    async def _check_chain(self, chain: Chain, kind: ProblemKind) -> bool:
        """Whether no number is missing; a hint that is far behind is written anew."""
        try:
            extent = await measure(chain, kind)
        except Wrong as wrong:
            problem = wrong.problem
            self._trouble(TroubleKind.CHAIN, problem.path, problem.explanation, _RESTORE)
            return False
        path = f"{chain.path}/head.json"
        hint = await read_hint(self._store, path)
        # A chain with number 0 alone has no hint yet.
        is_far = extent.head > 0 if hint is None else extent.head - hint.number > _FAR
        if is_far and self._repair and may(self._store.role, Verb.HINT, path):
            await chain.head()
            if await chain.refresh_hint():
                self._hints.append(path)
        return True

    async def _seal(self) -> None:
        """End the streams whose writers are past their written end (P16)."""
        if self._domain == DOMAIN:
            await seal_dead(self._sweep, self._domain, self._listed)
        else:
            slots = slot_chain(self._sweep, self._domain)
            await seal_expired_streams(slots, self._domain, self._kept.newest)

    async def _check_streams(self) -> None:
        if self._domain == DOMAIN:
            return  # a commit names its events there, and `verify` looks for each of them
        check = StreamCheck(
            self._store,
            self._domain,
            self._listed,
            self._slots,
            (self._kept.oldest, self._kept.newest),
        )
        streams = check.streams()
        self._meter.expect(len(streams))
        for at in range(0, len(streams), _AT_ONCE):
            await self._store.runtime.tasks.gather(
                *(check.check(stream) for stream in streams[at : at + _AT_ONCE])
            )
        self._waiting = check.found.waiting
        self._troubles += check.found.troubles

    async def _check_files(self, mark: str) -> None:
        """Files that manifests name must be there; those that nobody names are the collection's work."""
        there = set()
        for folder in folders_of(self._domain):
            async for meta in self._store.list(folder):
                there.add(meta.key)
                attempt = attempt_of(meta.key)
                if attempt is not None and attempt < mark and meta.key not in self._kept.files:
                    self._orphans.add(meta)
                self._meter.step()
        for path in sorted(self._kept.files - there):
            if not await self._is_there(path):
                fault = "is missing, and a manifest names it"
                self._trouble(TroubleKind.FILE, path, fault, _RESTORE)

    async def _is_there(self, path: str) -> bool:
        try:
            await self._store.head(path)
        except NotFound:
            return False
        return True

    def _note_lag(self, lag_ms: int) -> None:
        oldest = min(self._waiting, key=lambda meta: meta.modified_ms)
        fault = f"{len(self._waiting)} segments wait to be published, since {lag_ms / 60_000:.0f} minutes"
        step = (
            "See that `arco compactor` runs, or `arco up` without --no-spark, and look at its log."
        )
        self._trouble(TroubleKind.LAG, oldest.key, fault, step)

    def _trouble(self, kind: TroubleKind, path: str, fault: str, step: str) -> None:
        self._troubles.append(Trouble(kind=kind, path=path, explanation=fault, next_step=step))


def _shortened(troubles: Iterable[Trouble]) -> Iterable[Trouble]:
    """So many of each kind, and then how many more there are."""
    kinds: dict[TroubleKind, list[Trouble]] = {}
    for each in troubles:
        kinds.setdefault(each.kind, []).append(each)
    for alike in kinds.values():
        yield from alike[:_MOST]
        if len(alike) > _MOST:
            last = alike[_MOST]
            more = f"{last.explanation}; and {len(alike) - _MOST - 1} more of this kind"
            yield Trouble(
                kind=last.kind, path=last.path, explanation=more, next_step=last.next_step
            )
