"""Ingestion: a batch of events from a request into the ledger, in one pass.

Each line is admitted or refused on its own; nothing of a refused line is stored. Events that this process
stored recently are left out, and the rest is appended to the ledgers of their domains. An event is reported
as accepted or as a duplicate only when it is durable.

Cost: one durable create for each domain that the batch has events of, shared with other batches.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, reduce

import msgspec
from msgspec import UNSET, UnsetType

from arco.core import json
from arco.core.errors import Invalid, Unknown
from arco.core.ids import Ulid
from arco.core.runtime import Runtime
from arco.ledger.envelope import (
    Admitted,
    Envelope,
    EventTypes,
    RowVolume,
    Stamp,
    TooManyRows,
    admit,
    new_stamp,
)
from arco.ledger.writer import SEGMENT_ROW_BYTES, SEGMENT_ROWS, DomainWriters

MAX_BATCH = 10_000
MAX_BATCH_ROWS = 1_000_000
MAX_BATCH_ROW_BYTES = 1024 * 1024 * 1024
DEFAULT_RECENT_EVENTS = 100_000

_APPEND_BYTES = 4 * 1024 * 1024
_MAX_REASON = 300  # a reason may quote the line
_LINES_PER_TURN = 500  # then other requests get their turn

_Key = tuple[str, str]


@dataclass(frozen=True)
class UnreadableLine:
    """A line that was refused, counted from 1, and why."""

    line: int
    reason: str


@dataclass(frozen=True)
class Admission:
    """The admitted events of a batch by their line, and the refused lines."""

    accepted: dict[int, Admitted] = field(default_factory=dict)
    refused: list[UnreadableLine] = field(default_factory=list)


@dataclass(frozen=True)
class DuplicateEvent:
    """An event that was sent before, in this batch or recently, and is durable; it was not stored again."""

    line: int
    idempotency_key: str


@dataclass(frozen=True)
class IngestResult:
    """What was done with each line of a batch; `accepted` has the ids of the stored events, in order."""

    accepted: list[str]
    refused: list[UnreadableLine]
    duplicates: list[DuplicateEvent]
    by_domain: dict[str, int]


@dataclass
class _Append:
    """Events of one domain that are appended together, and the error if that failed."""

    domain: str
    events: list[Envelope] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)
    size_bytes: int = 0
    count: RowVolume = field(default_factory=RowVolume)
    problem: Exception | None = None


class RecentEvents:
    """The keys of about the last `most` stored events, in two generations: the older is dropped at once.

    It only saves lines in the ledger: the fold absorbs an event that is appended twice. An event counts as
    sent before only if type, key and payload are equal; the fold decides about other payloads of the key.
    """

    def __init__(self, most: int = DEFAULT_RECENT_EVENTS) -> None:
        self._half = most // 2
        self._young: dict[_Key, int] = {}
        self._old: dict[_Key, int] = {}

    def add(self, events: Iterable[Envelope]) -> None:
        """Remember these events, which are durable."""
        for event in events:
            self._young[_key(event)] = _content(event)
            if len(self._young) > self._half:
                self._young, self._old = {}, self._young

    def has(self, event: Envelope) -> bool:
        """Whether the same event was stored recently."""
        key = _key(event)
        content = self._young.get(key)
        if content is None:
            content = self._old.get(key)
        return content is not None and content == _content(event)

    def __len__(self) -> int:
        return len(self._young) + len(self._old)


class EventIngestion:
    """Stores batches; `domain_of` gives the domain of an event type."""

    def __init__(
        self,
        writers: DomainWriters,
        types: EventTypes,
        domain_of: Callable[[str], str],
        *,
        recent: RecentEvents | None = None,
    ) -> None:
        self._writers = writers
        self._types = types
        self._domain_of = cache(domain_of)  # called with declared types only, so it stays small
        self._recent = RecentEvents() if recent is None else recent
        self._runtime: Runtime = writers.store.runtime

    async def ingest(
        self,
        lines: Sequence[bytes],
        batch: Ulid | None = None,
        caller: str | UnsetType = UNSET,
    ) -> IngestResult:
        """Store a batch. A repetition under the same `batch` id gives its events the same ids.

        `Unavailable` if nothing was stored, `Unknown` if some of it was or may have been stored,
        `TooManyRows` if it would become more rows than one batch may.
        """
        stamp = new_stamp(self._runtime, batch, caller)
        admission = await admit_all(lines, self._types, stamp, self._runtime)
        fresh, duplicates = self._separate_duplicates(admission.accepted, stamp)
        _check_rows(fresh)
        appends = self._pack(fresh)
        await self._runtime.tasks.gather(*map(self._send, appends))
        for append in appends:
            if append.problem is None:
                self._recent.add(each for each in append.events if not stamp.minted(each))
        _check(appends)
        return IngestResult(
            accepted=[each.event.event_id for each in fresh],
            refused=admission.refused,
            duplicates=duplicates,
            by_domain=_counted(appends),
        )

    async def append_again(
        self, domain: str, line: bytes, types: EventTypes, caller: str | UnsetType = UNSET
    ) -> Envelope:
        """Append an event of any of these types to a domain, even if it was stored before.

        `Invalid` if it still cannot be read.
        """
        event, count = admit(line, types, new_stamp(self._runtime, caller=caller))
        await self._writers.of(domain).append_lines([json.encode(event)], count)
        return event

    async def append_event(self, domain: str, event: Envelope) -> None:
        """Append an event that Arco itself made and that clients may not send."""
        await self._writers.of(domain).append([event])

    def _separate_duplicates(
        self, admitted: dict[int, Admitted], stamp: Stamp
    ) -> tuple[list[Admitted], list[DuplicateEvent]]:
        """The events to store, and those that were stored recently or are in the batch twice.

        An event whose key derives from the batch cannot have been sent before.
        """
        in_batch = RecentEvents(2 * len(admitted) + 2)  # large enough for the whole batch
        fresh: list[Admitted] = []
        duplicates: list[DuplicateEvent] = []
        for line, each in admitted.items():
            event = each.event
            if stamp.minted(event):
                fresh.append(each)
            elif self._recent.has(event) or in_batch.has(event):
                duplicates.append(DuplicateEvent(line, event.idempotency_key))
            else:
                in_batch.add((event,))
                fresh.append(each)
        return fresh, duplicates

    def _pack(self, events: list[Admitted]) -> list[_Append]:
        appends: list[_Append] = []
        open_: dict[str, _Append] = {}
        for event, count in events:
            domain, line = self._domain_of(event.event_type), json.encode(event)
            append = open_.get(domain)
            if (
                append is None
                or append.size_bytes + len(line) > _APPEND_BYTES
                or append.count.plus(count).is_above(SEGMENT_ROWS, SEGMENT_ROW_BYTES)
            ):
                append = open_[domain] = _Append(domain)
                appends.append(append)
            append.events.append(event)
            append.lines.append(line)
            append.size_bytes += len(line) + 1
            append.count = append.count.plus(count)
        return appends

    async def _send(self, append: _Append) -> None:
        try:
            await self._writers.of(append.domain).append_lines(append.lines, append.count)
        except Exception as problem:
            append.problem = problem


def _check_rows(events: list[Admitted]) -> None:
    """Refuse a batch whose rows would hold up the compaction of other events."""
    count = reduce(RowVolume.plus, (each.row_count for each in events), RowVolume())
    if count.is_above(MAX_BATCH_ROWS, MAX_BATCH_ROW_BYTES):
        most = RowVolume(MAX_BATCH_ROWS, MAX_BATCH_ROW_BYTES)
        raise TooManyRows(
            f"these {len(events):,} events would become {count}, and one batch becomes at most {most}"
        )


def _check(appends: list[_Append]) -> None:
    """Raise the error of failed appends: `Unknown` unless nothing at all was stored."""
    problems = [each.problem for each in appends if each.problem is not None]
    if not problems:
        return
    unclear = next((each for each in problems if isinstance(each, Unknown)), None)
    if len(problems) == len(appends) or unclear is not None:
        raise unclear or problems[0]
    raise Unknown("a part of the batch is stored, the rest is not; send it again") from problems[0]


def _counted(appends: list[_Append]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for append in appends:
        counts[append.domain] = counts.get(append.domain, 0) + len(append.events)
    return counts


def _key(event: Envelope) -> _Key:
    return event.event_type, event.idempotency_key


def _content(event: Envelope) -> int:
    return hash(bytes(event.payload))


def split_lines(body: bytes) -> list[bytes]:
    """The lines of an NDJSON body, with empty ones, since lines are reported by number."""
    return _bounded(body.split(b"\n"))


def split_array(body: bytes) -> list[bytes]:
    """The elements of a JSON array; `Invalid` if the body is not an array."""
    return _bounded([bytes(event) for event in json.decode(body, list[msgspec.Raw])])


async def admit_all(
    lines: Sequence[bytes], types: EventTypes, stamp: Stamp, runtime: Runtime
) -> Admission:
    """Admit the events of a batch; empty lines are counted and skipped."""
    admission = Admission()
    for start in range(0, len(lines), _LINES_PER_TURN):
        if start:
            await runtime.tasks.turn()
        _admit_some(lines, start, types, stamp, admission)
    return admission


def _admit_some(
    lines: Sequence[bytes], start: int, types: EventTypes, stamp: Stamp, admission: Admission
) -> None:
    accepted, refused = admission.accepted, admission.refused
    number = len(accepted) + len(refused)
    for line_number, line in enumerate(lines[start : start + _LINES_PER_TURN], start=start + 1):
        if not line or line.isspace():
            continue
        try:
            accepted[line_number] = admit(line, types, stamp, number)
        except Invalid as problem:
            refused.append(UnreadableLine(line_number, str(problem)[:_MAX_REASON]))
        number += 1


def _bounded(lines: list[bytes]) -> list[bytes]:
    if len(lines) > MAX_BATCH:
        count = sum(1 for line in lines if line and not line.isspace())
        if count > MAX_BATCH:
            raise Invalid(f"a batch has at most {MAX_BATCH} events; send the rest in another")
    return lines
