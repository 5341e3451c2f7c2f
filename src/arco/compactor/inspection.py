"""What an inspection has found in one domain: figures, what was repaired, and what is still wrong."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from arco.catalog.manifest import manifests_of
from arco.compactor.chain_checks import measure_chain
from arco.compactor.collecting_store import CollectingStore, ObjectCount
from arco.compactor.domains import folders_of
from arco.compactor.garbage_collection import Streams, add_segment, seal_expired_streams
from arco.compactor.kept_manifests import KeptManifests, attempt_in_path, orphan_mark_at
from arco.compactor.progress import Progress, ProgressCounter
from arco.compactor.verification_report import Discrepancy, ProblemKind
from arco.core.errors import Corrupt, NotFound
from arco.fold.tier1 import DOMAIN
from arco.ledger.sealer import seal_expired
from arco.ledger.segment import SegmentPlace, find_place, segment_key
from arco.ledger.slot import kept_slots, slots_of
from arco.ledger.watermark import Watermark
from arco.storage.backend import Meta
from arco.storage.chain import Chain
from arco.storage.gallop import last_present
from arco.storage.hint import read_hint
from arco.storage.roles import Verb, may
from arco.storage.store import Store
from arco.storage.store_clock import store_now_ms


class InspectionProblemKind(StrEnum):
    """What kind of thing is wrong."""

    CHAIN = "chain"  # a number of manifests, slots or floors
    SEGMENT = "segment"  # of the ledger: lost
    STREAM = "stream"  # that nobody folds
    SEAL = "seal"
    WATERMARK = "watermark"
    FILE = "file"
    LAG = "lag"


class InspectionProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is not repaired by itself, by its path in the workspace."""

    kind: InspectionProblemKind
    path: str
    explanation: str
    next_step: str


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """One domain, as far as it could be looked at."""

    domain: str
    head: int  # -1 if nothing was published yet
    streams: int = 0  # that are open
    segments: int = 0  # that are there
    waiting: int = 0  # segments with events that are not published yet
    waiting_bytes: int = 0
    lag_ms: int | None = None  # how long the oldest of them has waited
    files: int = 0  # that kept manifests name
    orphans: ObjectCount = msgspec.field(
        default_factory=ObjectCount
    )  # files that nobody names: for the collection
    sealed: tuple[str, ...] = ()  # streams that were ended
    hints: tuple[str, ...] = ()  # that were written anew
    troubles: tuple[InspectionProblem, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nobody has to do anything."""
        return not self.troubles


PATIENCE_MS = 15 * 60_000  # events are published within seconds; after this somebody should look

_FAR = 64  # numbers behind the head: a hint is written every 8 numbers, so it was lost or is stuck
_AT_ONCE = 16
_MOST = 20  # troubles of a kind that are told one by one
_ROUNDS = 3

_RESTORE = "Stop writing to this store, and restore that object from a backup."


async def inspect_domain(
    store: Store,
    domain: str,
    *,
    repair: bool = True,
    patience_ms: int = PATIENCE_MS,
    progress: Progress | None = None,
) -> Inspection:
    """Look at all of a domain that can be listed; `store` has the janitor's role."""
    for _ in range(_ROUNDS):
        work = _Look(store, domain, ProgressCounter(progress), repair=repair)
        found = await work.run(patience_ms)
        if found.ok or not await work.has_moved():
            break
    return found


class _Look:
    """One inspection on its way."""

    def __init__(self, store: Store, domain: str, meter: ProgressCounter, *, repair: bool) -> None:
        # Counts what is sealed; without repairs, nothing but looks sealed.
        self._sweep = CollectingStore(store, ProgressCounter(None), rehearsed=not repair)
        self._store = store
        self._domain = domain
        self._meter = meter
        self._repair = repair
        self._chain = manifests_of(store, domain)
        self._kept = KeptManifests()
        self._slots = KnownSlots(0, {})
        self._listed: Streams = {}
        self._troubles: list[InspectionProblem] = []
        self._hints: list[str] = []
        self._waiting: list[Meta] = []
        self._orphans = ObjectCount()

    async def run(self, patience_ms: int) -> Inspection:
        """Everything in turn; what rests on something that is wrong is left out."""
        now_ms = await store_now_ms(self._store)
        await self._list_segments()
        if await self._read_manifests() and await self._read_slots():
            await self._seal()
            await self._check_streams()
            await self._check_files(orphan_mark_at(now_ms))
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
            self._trouble(
                InspectionProblemKind.CHAIN, f"{self._chain.path}/", str(problem), _RESTORE
            )
            return False
        return True

    async def _read_slots(self) -> bool:
        chain = slots_of(self._store, self._domain)
        if not await self._check_chain(chain, ProblemKind.LINK):
            return False
        try:
            slots = await kept_slots(chain)
            head, floor = await chain.head(), await chain.floor()
        except Corrupt as problem:
            self._trouble(InspectionProblemKind.CHAIN, f"{chain.path}/", str(problem), _RESTORE)
            return False
        self._slots = KnownSlots(floor, {slot.stream: number for number, slot in slots.items()})
        frontier = self._kept.newest.frontier
        if frontier > head.number + 1:
            passed = f"manifest {self._kept.head} has passed {frontier} slots"
            fault = f"{passed}, and there are only {head.number + 1}"
            self._trouble(
                InspectionProblemKind.WATERMARK, chain.key(head.number + 1), fault, _RESTORE
            )
        return True

    async def _check_chain(self, chain: Chain, kind: ProblemKind) -> bool:
        """Whether no number is missing; a hint that is far behind is written anew."""
        try:
            extent = await measure_chain(chain, kind)
        except Discrepancy as wrong:
            problem = wrong.problem
            self._trouble(InspectionProblemKind.CHAIN, problem.path, problem.explanation, _RESTORE)
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
            await seal_expired_streams(self._sweep, self._domain, self._listed)
        else:
            slots = slots_of(self._sweep, self._domain)
            await seal_expired(slots, self._domain, self._kept.newest)

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
                attempt = attempt_in_path(meta.key)
                if attempt is not None and attempt < mark and meta.key not in self._kept.files:
                    self._orphans.add(meta)
                self._meter.step()
        for path in sorted(self._kept.files - there):
            if not await self._is_there(path):
                fault = "is missing, and a manifest names it"
                self._trouble(InspectionProblemKind.FILE, path, fault, _RESTORE)

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
        self._trouble(InspectionProblemKind.LAG, oldest.key, fault, step)

    def _trouble(self, kind: InspectionProblemKind, path: str, fault: str, step: str) -> None:
        self._troubles.append(
            InspectionProblem(kind=kind, path=path, explanation=fault, next_step=step)
        )


def _shortened(troubles: Iterable[InspectionProblem]) -> Iterable[InspectionProblem]:
    """So many of each kind, and then how many more there are."""
    kinds: dict[InspectionProblemKind, list[InspectionProblem]] = {}
    for each in troubles:
        kinds.setdefault(each.kind, []).append(each)
    for alike in kinds.values():
        yield from alike[:_MOST]
        if len(alike) > _MOST:
            last = alike[_MOST]
            more = f"{last.explanation}; and {len(alike) - _MOST - 1} more of this kind"
            yield InspectionProblem(
                kind=last.kind, path=last.path, explanation=more, next_step=last.next_step
            )


_RESTORE_SEGMENT = "Restore it from a backup."
_LOST = f"{_RESTORE_SEGMENT} If there is none, send its events again. Please report this as a bug."


@dataclass(frozen=True)
class KnownSlots:
    """The slots that are there, by stream, and below which number they were collected."""

    floor: int
    numbers: dict[str, int]


@dataclass
class StreamFindings:
    """What was found out about all streams."""

    waiting: list[Meta] = field(default_factory=list)
    troubles: list[InspectionProblem] = field(default_factory=list)


class StreamCheck:
    """Looks at one stream after the other."""

    def __init__(
        self,
        store: Store,
        domain: str,
        listed: Streams,
        slots: KnownSlots,
        marks: tuple[Watermark, ...],
    ) -> None:
        self._store = store
        self._domain = domain
        self._listed = listed
        self._slots = slots
        self._oldest, self._newest = marks
        self.found = StreamFindings()

    def streams(self) -> list[str]:
        """All that anybody knows of."""
        known = {*self._listed, *self._slots.numbers, *self._oldest.open, *self._newest.open}
        return sorted(known)

    async def check(self, stream: str) -> None:
        """Note what is wrong with a stream, and what in it waits."""
        try:
            await self._check(stream)
        except Corrupt as problem:
            path = f"ledger/{self._domain}/{stream}/"
            self._trouble(InspectionProblemKind.SEGMENT, path, str(problem), _RESTORE)

    async def _check(self, stream: str) -> None:
        number = self._slots.numbers.get(stream)
        is_known = number is not None or stream in {*self._newest.open, *self._oldest.open}
        if not is_known:
            await self._check_stranger(stream)
            return
        is_closed = stream not in self._newest.open and (
            number is None or number < self._newest.frontier
        )
        top = await self._top(stream, is_closed=is_closed)
        folded = top if is_closed else self._newest.open.get(stream, -1)
        await self._check_needed(
            stream, range(self._needed_from(stream, number, top), top + 1), folded
        )
        if not is_closed:
            await self._note_waiting(stream, folded, top)

    async def _check_stranger(self, stream: str) -> None:
        """No slot names it: it may be so old that its slot was collected, and then it has a seal."""
        last = max(self._listed[stream])
        end = await self._place(stream, last)
        if self._slots.floor == 0 or end is None or not end.seal:
            self._trouble(
                InspectionProblemKind.STREAM,
                f"ledger/{self._domain}/{stream}/",
                f"no slot names this stream, so nobody folds its {len(self._listed[stream])} segments",
                f"Restore its slot below sequence/{self._domain}/ from a backup, or have them sent again.",
            )

    async def _top(self, stream: str, *, is_closed: bool) -> int:
        """The last number of a stream; one that is closed must end with a seal."""
        top = max(self._listed.get(stream, {-1: None}))

        async def probe(seq: int) -> SegmentPlace | None:
            return await self._place(stream, seq)

        if not is_closed:
            return max(top, self._newest.open.get(stream, -1))
        end = await self._place(stream, top) if top >= 0 else None
        if end is None or not end.seal:
            top, end = await last_present(probe, top, end)
        if end is None or not end.seal:
            self._trouble(
                InspectionProblemKind.SEAL,
                segment_key(self._domain, stream, max(top, 0)),
                "a stream that was closed does not end with its seal: who woke up late could append to it",
                _RESTORE,
            )
        return top

    def _needed_from(self, stream: str, number: int | None, top: int) -> int:
        """The first segment that the oldest kept manifest has not folded."""
        if stream in self._oldest.open:
            return self._oldest.open[stream] + 1
        if number is not None and number < self._oldest.frontier:
            return top + 1  # closed for good
        return 0

    async def _check_needed(self, stream: str, needed: range, folded: int) -> None:
        there = self._listed.get(stream, {})
        missing = [
            seq for seq in needed if seq not in there and await self._place(stream, seq) is None
        ]
        if not missing:
            return
        others = f", and {len(missing) - 1} more of its stream" if len(missing) > 1 else ""
        if missing[0] <= folded:
            fault = "is missing: it is published, but the state cannot be made anew without it"
        else:
            fault = "is missing below a later one: its events are lost, and those after it wait for ever"
        path = segment_key(self._domain, stream, missing[0])
        self._trouble(InspectionProblemKind.SEGMENT, path, fault + others, _LOST)

    async def _note_waiting(self, stream: str, folded: int, top: int) -> None:
        waiting = [meta for seq, meta in self._listed.get(stream, {}).items() if seq > folded]
        if waiting:
            end = await self._place(stream, top)
            is_seal = end is not None and end.seal
            self.found.waiting += [
                meta for meta in waiting if not (is_seal and meta.key.endswith(_name(top)))
            ]

    async def _place(self, stream: str, seq: int) -> SegmentPlace | None:
        return await find_place(self._store, self._domain, stream, seq)

    def _trouble(self, kind: InspectionProblemKind, path: str, fault: str, step: str) -> None:
        self.found.troubles.append(
            InspectionProblem(kind=kind, path=path, explanation=fault, next_step=step)
        )


def _name(seq: int) -> str:
    return f"/{seq:012d}.jsonl"
