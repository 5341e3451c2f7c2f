"""Inspection of a domain: compares listings with slots, watermarks and manifests (law 6).

Everything else in Arco uses known keys, so it would not notice lost objects. An inspection finds lost
segments, streams that are not folded, missing or unnamed files, and stale hints. It repairs what is safe:
it seals abandoned streams and rewrites hints that are far behind. The rest is reported with a next step.

Objects change during an inspection. So it lists objects before it reads what names them, looks up missing
ones by key, and starts again if something was collected meanwhile.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from arco.catalog.manifest import manifests_of
from arco.compactor.chain_checks import measure_chain
from arco.compactor.collecting_store import CollectingStore, ObjectCount, Progress, ProgressCounter
from arco.compactor.domains import folders_of
from arco.compactor.garbage_collection import Streams, add_segment, seal_listed_streams
from arco.compactor.kept_manifests import KeptManifests, attempt_in_path, orphan_mark_at
from arco.compactor.verification_report import Discrepancy, ProblemKind
from arco.core.errors import Corrupt, NotFound
from arco.fold.tier1 import DOMAIN
from arco.ledger.gc import seal_expired_streams
from arco.ledger.segment import SegmentLocation, find_location, segment_key
from arco.ledger.stream import Watermark, read_slots, slot_chain
from arco.storage.backend import Meta
from arco.storage.chain import Chain, last_present
from arco.storage.hint import read_hint
from arco.storage.roles import Verb, may
from arco.storage.store import Store, store_now_ms


class InspectionProblemKind(StrEnum):
    """The kinds of problems."""

    CHAIN = "chain"  # a number of manifests, slots or floors
    SEGMENT = "segment"  # lost
    STREAM = "stream"  # not folded
    SEAL = "seal"
    WATERMARK = "watermark"
    FILE = "file"
    LAG = "lag"


class InspectionProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A problem that an operator must solve, with the path of the object in the workspace."""

    kind: InspectionProblemKind
    path: str
    explanation: str
    next_step: str


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """The report of an inspection of one domain."""

    domain: str
    head: int  # -1 if nothing is published yet
    streams: int = 0  # open ones
    segments: int = 0  # all that exist
    waiting: int = 0  # segments with events that are not published yet
    waiting_bytes: int = 0
    lag_ms: int | None = None  # age of the oldest waiting segment
    files: int = 0  # that kept manifests name
    # Files that no manifest names, for garbage collection.
    orphans: ObjectCount = msgspec.field(default_factory=ObjectCount)
    sealed: tuple[str, ...] = ()  # streams that were sealed
    hints: tuple[str, ...] = ()  # paths of rewritten hints
    troubles: tuple[InspectionProblem, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether there is no problem left."""
        return not self.troubles


PATIENCE_MS = 15 * 60_000  # events are published within seconds; a longer lag is a problem

_STALE_HINT = 64  # numbers behind the head; a hint is written every 8 numbers
_PARALLEL_READS = 16
_MAX_PROBLEMS = 20  # of a kind that are reported one by one
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
    """Inspect a domain; `store` has the janitor's role. Without `repair` nothing is written."""
    for _ in range(_ROUNDS):
        work = _Inspector(store, domain, ProgressCounter(progress), repair=repair)
        inspection = await work.run(patience_ms)
        if inspection.ok or not await work.has_collected():
            break
    return inspection


class _Inspector:
    """An inspection in progress."""

    def __init__(
        self, store: Store, domain: str, progress: ProgressCounter, *, repair: bool
    ) -> None:
        # Seals go through this store; without repairs it only pretends to create them.
        self._sealing_store = CollectingStore(store, ProgressCounter(None), dry_run=not repair)
        self._store = store
        self._domain = domain
        self._progress = progress
        self._repair = repair
        self._chain = manifests_of(store, domain)
        self._kept_manifests = KeptManifests()
        self._slots = KnownSlots(0, {})
        self._segments_by_stream: Streams = {}
        self._problems: list[InspectionProblem] = []
        self._hints: list[str] = []
        self._waiting: list[Meta] = []
        self._orphans = ObjectCount()

    async def run(self, patience_ms: int) -> Inspection:
        """Run all checks in turn; a check whose input is wrong is skipped."""
        now_ms = await store_now_ms(self._store)
        await self._list_segments()
        if await self._read_manifests() and await self._read_slots():
            await self._seal()
            await self._check_streams()
            await self._check_files(orphan_mark_at(now_ms))
        lag_ms = max((now_ms - meta.modified_ms for meta in self._waiting), default=None)
        if lag_ms is not None and lag_ms > patience_ms:
            self._report_lag(lag_ms)
        return Inspection(
            domain=self._domain,
            head=self._kept_manifests.head,
            streams=len(self._kept_manifests.newest.open),
            segments=sum(map(len, self._segments_by_stream.values())),
            waiting=len(self._waiting),
            waiting_bytes=sum(meta.size_bytes for meta in self._waiting),
            lag_ms=lag_ms,
            files=len(self._kept_manifests.files),
            orphans=self._orphans,
            sealed=tuple(meta.key.split("/")[2] for meta in self._sealing_store.created),
            hints=tuple(self._hints),
            troubles=tuple(_limit_per_kind(self._problems)),
        )

    async def has_collected(self) -> bool:
        """Whether something was collected since the start, so that missing objects may be no problem."""
        try:
            return await self._chain.floor() > self._kept_manifests.floor
        except Corrupt:
            return False

    async def _list_segments(self) -> None:
        async for meta in self._store.list(f"ledger/{self._domain}/"):
            add_segment(self._segments_by_stream, meta)
            self._progress.step()

    async def _read_manifests(self) -> bool:
        if not await self._check_chain(self._chain, ProblemKind.MANIFEST):
            return False
        try:
            await self._kept_manifests.read_on(self._chain)
        except Corrupt as problem:
            self._report(
                InspectionProblemKind.CHAIN, f"{self._chain.path}/", str(problem), _RESTORE
            )
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
            self._report(InspectionProblemKind.CHAIN, f"{chain.path}/", str(problem), _RESTORE)
            return False
        self._slots = KnownSlots(floor, {slot.stream: number for number, slot in slots.items()})
        frontier = self._kept_manifests.newest.frontier
        if frontier > head.number + 1:
            passed = f"manifest {self._kept_manifests.head} has passed {frontier} slots"
            fault = f"{passed}, and there are only {head.number + 1}"
            self._report(
                InspectionProblemKind.WATERMARK, chain.key(head.number + 1), fault, _RESTORE
            )
        return True

    async def _check_chain(self, chain: Chain, kind: ProblemKind) -> bool:
        """Whether no number is missing; a hint that is far behind is rewritten."""
        try:
            extent = await measure_chain(chain, kind)
        except Discrepancy as discrepancy:
            problem = discrepancy.problem
            self._report(InspectionProblemKind.CHAIN, problem.path, problem.explanation, _RESTORE)
            return False
        path = f"{chain.path}/head.json"
        hint = await read_hint(self._store, path)
        # A chain with number 0 alone has no hint yet.
        is_stale = extent.head > 0 if hint is None else extent.head - hint.number > _STALE_HINT
        if is_stale and self._repair and may(self._store.role, Verb.HINT, path):
            await chain.head()
            if await chain.refresh_hint():
                self._hints.append(path)
        return True

    async def _seal(self) -> None:
        """Seal the streams whose writers are past their announced end (P16)."""
        if self._domain == DOMAIN:
            await seal_listed_streams(self._sealing_store, self._domain, self._segments_by_stream)
        else:
            slots = slot_chain(self._sealing_store, self._domain)
            await seal_expired_streams(slots, self._domain, self._kept_manifests.newest)

    async def _check_streams(self) -> None:
        if self._domain == DOMAIN:
            return  # there a commit names its events, and `verify` checks each of them
        check = StreamCheck(
            self._store,
            self._domain,
            self._segments_by_stream,
            self._slots,
            (self._kept_manifests.oldest, self._kept_manifests.newest),
        )
        streams = check.streams()
        self._progress.expect(len(streams))
        for at in range(0, len(streams), _PARALLEL_READS):
            await self._store.runtime.tasks.gather(
                *(check.check(stream) for stream in streams[at : at + _PARALLEL_READS])
            )
        self._waiting = check.waiting
        self._problems += check.problems

    async def _check_files(self, mark: str) -> None:
        """Report named files that are missing, and count unnamed files for garbage collection."""
        listed_keys = set()
        for folder in folders_of(self._domain):
            async for meta in self._store.list(folder):
                listed_keys.add(meta.key)
                attempt = attempt_in_path(meta.key)
                if (
                    attempt is not None
                    and attempt < mark
                    and meta.key not in self._kept_manifests.files
                ):
                    self._orphans.add(meta)
                self._progress.step()
        for path in sorted(self._kept_manifests.files - listed_keys):
            if not await self._exists(path):
                fault = "is missing, and a manifest names it"
                self._report(InspectionProblemKind.FILE, path, fault, _RESTORE)

    async def _exists(self, path: str) -> bool:
        try:
            await self._store.head(path)
        except NotFound:
            return False
        return True

    def _report_lag(self, lag_ms: int) -> None:
        oldest = min(self._waiting, key=lambda meta: meta.modified_ms)
        fault = f"{len(self._waiting)} segments have waited {lag_ms / 60_000:.0f} minutes to be published"
        step = (
            "Check that `arco compactor` runs, or `arco up` without --no-spark, and read its log."
        )
        self._report(InspectionProblemKind.LAG, oldest.key, fault, step)

    def _report(self, kind: InspectionProblemKind, path: str, fault: str, step: str) -> None:
        self._problems.append(
            InspectionProblem(kind=kind, path=path, explanation=fault, next_step=step)
        )


def _limit_per_kind(problems: Iterable[InspectionProblem]) -> Iterable[InspectionProblem]:
    """The first problems of each kind, the last of them with the number of those left out."""
    kinds: dict[InspectionProblemKind, list[InspectionProblem]] = {}
    for each in problems:
        kinds.setdefault(each.kind, []).append(each)
    for same_kind in kinds.values():
        yield from same_kind[:_MAX_PROBLEMS]
        if len(same_kind) > _MAX_PROBLEMS:
            last_shown = same_kind[_MAX_PROBLEMS]
            more = f"{last_shown.explanation}; and {len(same_kind) - _MAX_PROBLEMS - 1} more of this kind"
            yield InspectionProblem(
                kind=last_shown.kind,
                path=last_shown.path,
                explanation=more,
                next_step=last_shown.next_step,
            )


_RESTORE_SEGMENT = "Restore it from a backup."
_LOST = f"{_RESTORE_SEGMENT} If there is none, send its events again. Please report this as a bug."


@dataclass(frozen=True)
class KnownSlots:
    """The kept slots by stream, and the floor of their chain."""

    floor: int
    numbers: dict[str, int]


class StreamCheck:
    """Checks streams of an event domain: needed segments exist, and closed streams have a seal.

    A segment is needed until the oldest kept manifest has folded it (P20). One that is missing below a
    later one is lost, because a segment is created after its predecessor is durable (P15). A listing may
    be incomplete: a segment that it lacks is looked up by key before it is reported.
    """

    def __init__(
        self,
        store: Store,
        domain: str,
        segments_by_stream: Streams,
        slots: KnownSlots,
        marks: tuple[Watermark, ...],
    ) -> None:
        self._store = store
        self._domain = domain
        self._segments_by_stream = segments_by_stream
        self._slots = slots
        self._oldest, self._newest = marks
        self.waiting: list[Meta] = []  # segments with events that are not published
        self.problems: list[InspectionProblem] = []

    def streams(self) -> list[str]:
        """All streams that segments, slots or watermarks name."""
        streams = {
            *self._segments_by_stream,
            *self._slots.numbers,
            *self._oldest.open,
            *self._newest.open,
        }
        return sorted(streams)

    async def check(self, stream: str) -> None:
        """Record the problems and the waiting segments of a stream."""
        try:
            await self._check(stream)
        except Corrupt as problem:
            path = f"ledger/{self._domain}/{stream}/"
            self._report(InspectionProblemKind.SEGMENT, path, str(problem), _RESTORE)

    async def _check(self, stream: str) -> None:
        number = self._slots.numbers.get(stream)
        is_known = number is not None or stream in {*self._newest.open, *self._oldest.open}
        if not is_known:
            await self._check_unregistered(stream)
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
            await self._add_waiting(stream, folded, top)

    async def _check_unregistered(self, stream: str) -> None:
        """A stream without a slot must have a seal: then its slot was collected."""
        segments = self._segments_by_stream[stream]
        last_seq = max(segments)
        end = await self._find_segment(stream, last_seq)
        if self._slots.floor == 0 or end is None or not end.seal:
            self._report(
                InspectionProblemKind.STREAM,
                f"ledger/{self._domain}/{stream}/",
                f"no slot names this stream, so its {len(segments)} segments are not folded",
                f"Restore its slot below sequence/{self._domain}/ from a backup, or send the events again.",
            )

    async def _top(self, stream: str, *, is_closed: bool) -> int:
        """The last segment of a stream; a closed one must end with a seal."""
        top = max(self._segments_by_stream.get(stream, {-1: None}))

        async def probe(seq: int) -> SegmentLocation | None:
            return await self._find_segment(stream, seq)

        if not is_closed:
            return max(top, self._newest.open.get(stream, -1))
        end = await self._find_segment(stream, top) if top >= 0 else None
        if end is None or not end.seal:
            top, end = await last_present(probe, top, end)
        if end is None or not end.seal:
            self._report(
                InspectionProblemKind.SEAL,
                segment_key(self._domain, stream, max(top, 0)),
                "a closed stream does not end with a seal: a writer that was suspended could append to it",
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
        listed_segments = self._segments_by_stream.get(stream, {})
        missing = [
            seq
            for seq in needed
            if seq not in listed_segments and await self._find_segment(stream, seq) is None
        ]
        if not missing:
            return
        others = f", and {len(missing) - 1} more of its stream" if len(missing) > 1 else ""
        if missing[0] <= folded:
            fault = "is missing: it is published, but the state cannot be rebuilt without it"
        else:
            fault = (
                "is missing below a later one: its events are lost, and later ones are never folded"
            )
        path = segment_key(self._domain, stream, missing[0])
        self._report(InspectionProblemKind.SEGMENT, path, fault + others, _LOST)

    async def _add_waiting(self, stream: str, folded: int, top: int) -> None:
        waiting = [
            meta for seq, meta in self._segments_by_stream.get(stream, {}).items() if seq > folded
        ]
        if waiting:
            end = await self._find_segment(stream, top)
            is_seal = end is not None and end.seal
            self.waiting += [
                meta for meta in waiting if not (is_seal and meta.key.endswith(_name(top)))
            ]

    async def _find_segment(self, stream: str, seq: int) -> SegmentLocation | None:
        return await find_location(self._store, self._domain, stream, seq)

    def _report(self, kind: InspectionProblemKind, path: str, fault: str, step: str) -> None:
        self.problems.append(
            InspectionProblem(kind=kind, path=path, explanation=fault, next_step=step)
        )


def _name(seq: int) -> str:
    return f"/{seq:012d}.jsonl"
