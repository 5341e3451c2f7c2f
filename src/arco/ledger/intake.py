"""The intake: a batch of events from the request to the ledger, in one pass.

Every line is admitted or refused, what was stored lately is left out, and the rest goes to the writers of
its domains. Nothing is said to be taken, or to be there already, before it is durable.

Cost: one durable create for each domain that the batch has events of, shared with other batches.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, reduce

from msgspec import UNSET, UnsetType

from arco.core import json
from arco.core.errors import Unknown
from arco.core.ids import Ulid
from arco.core.runtime import Runtime
from arco.ledger.door import Refusal, admit_all
from arco.ledger.envelope import (
    Admitted,
    Envelope,
    EventTypes,
    RowCount,
    Stamp,
    TooManyRows,
    admit,
    new_stamp,
)
from arco.ledger.recent import Recent
from arco.ledger.writer import SEGMENT_ROW_BYTES, SEGMENT_ROWS
from arco.ledger.writers import Writers

MOST_BATCH_ROWS = 1_000_000
MOST_BATCH_ROW_BYTES = 1024 * 1024 * 1024

_APPEND_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class Duplicate:
    """A line that came before, in this batch or lately, and is durable; it was not stored again."""

    line: int
    idempotency_key: str


@dataclass(frozen=True)
class Taken:
    """What became of every line of a batch; `accepted` has the ids of the events stored, in order."""

    accepted: list[str]
    refused: list[Refusal]
    duplicates: list[Duplicate]
    by_domain: dict[str, int]


@dataclass
class _Parcel:
    """Events of one domain that go into one append, and how that ended."""

    domain: str
    events: list[Envelope] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)
    size_bytes: int = 0
    count: RowCount = field(default_factory=RowCount)
    problem: Exception | None = None


class Intake:
    """Takes batches; `domain_of` says where the events of a type belong."""

    def __init__(
        self,
        writers: Writers,
        types: EventTypes,
        domain_of: Callable[[str], str],
        *,
        recent: Recent | None = None,
    ) -> None:
        self._writers = writers
        self._types = types
        self._domain_of = cache(domain_of)  # of declared types alone, so it stays small
        self._recent = Recent() if recent is None else recent
        self._runtime: Runtime = writers.store.runtime

    async def take(
        self,
        lines: Sequence[bytes],
        batch: Ulid | None = None,
        caller: str | UnsetType = UNSET,
    ) -> Taken:
        """Store a batch. A repetition under the same `batch` id gives its events the same ids.

        `Unavailable` if nothing of it was stored, `Unknown` if some of it was or may have been,
        `TooManyRows` if it would become more rows than one batch may.
        """
        stamp = new_stamp(self._runtime, batch, caller)
        admission = await admit_all(lines, self._types, stamp, self._runtime)
        fresh, duplicates = self._sift(admission.accepted, stamp)
        _check_rows(fresh)
        parcels = self._pack(fresh)
        await self._runtime.tasks.gather(*map(self._send, parcels))
        for parcel in parcels:
            if parcel.problem is None:
                self._recent.add(each for each in parcel.events if not stamp.minted(each))
        _check(parcels)
        return Taken(
            accepted=[each.event.event_id for each in fresh],
            refused=admission.refused,
            duplicates=duplicates,
            by_domain=_counted(parcels),
        )

    async def repeat(
        self, domain: str, line: bytes, types: EventTypes, caller: str | UnsetType = UNSET
    ) -> Envelope:
        """Append an event of any of these types to a domain, though it may be there already.

        `Invalid` if it is still none that can be read.
        """
        event, count = admit(line, types, new_stamp(self._runtime, caller=caller))
        await self._writers.of(domain).append_lines([json.encode(event)], count)
        return event

    async def tell(self, domain: str, event: Envelope) -> None:
        """Append an event of our own, which the door would refuse."""
        await self._writers.of(domain).append([event])

    def _sift(
        self, admitted: dict[int, Admitted], stamp: Stamp
    ) -> tuple[list[Admitted], list[Duplicate]]:
        """What is to be stored, and what is there already or stands in the batch twice.

        An event whose key is of our making cannot have been sent before.
        """
        here = Recent(2 * len(admitted) + 2)  # nothing leaves it before the batch ends
        fresh: list[Admitted] = []
        duplicates: list[Duplicate] = []
        for line, each in admitted.items():
            event = each.event
            if stamp.minted(event):
                fresh.append(each)
            elif self._recent.has(event) or here.has(event):
                duplicates.append(Duplicate(line, event.idempotency_key))
            else:
                here.add((event,))
                fresh.append(each)
        return fresh, duplicates

    def _pack(self, events: list[Admitted]) -> list[_Parcel]:
        parcels: list[_Parcel] = []
        open_: dict[str, _Parcel] = {}
        for event, count in events:
            domain, line = self._domain_of(event.event_type), json.encode(event)
            parcel = open_.get(domain)
            if (
                parcel is None
                or parcel.size_bytes + len(line) > _APPEND_BYTES
                or parcel.count.plus(count).is_above(SEGMENT_ROWS, SEGMENT_ROW_BYTES)
            ):
                parcel = open_[domain] = _Parcel(domain)
                parcels.append(parcel)
            parcel.events.append(event)
            parcel.lines.append(line)
            parcel.size_bytes += len(line) + 1
            parcel.count = parcel.count.plus(count)
        return parcels

    async def _send(self, parcel: _Parcel) -> None:
        try:
            await self._writers.of(parcel.domain).append_lines(parcel.lines, parcel.count)
        except Exception as problem:
            parcel.problem = problem


def _check_rows(events: list[Admitted]) -> None:
    """Refuse a batch that would become so many rows that others would wait for their compaction."""
    count = reduce(RowCount.plus, (each.row_count for each in events), RowCount())
    if count.is_above(MOST_BATCH_ROWS, MOST_BATCH_ROW_BYTES):
        most = RowCount(MOST_BATCH_ROWS, MOST_BATCH_ROW_BYTES)
        raise TooManyRows(
            f"these {len(events):,} events would become {count}, and one batch becomes at most {most}"
        )


def _check(parcels: list[_Parcel]) -> None:
    """Raise what the sender has to know: a failure is one only if nothing at all was stored."""
    problems = [each.problem for each in parcels if each.problem is not None]
    if not problems:
        return
    unclear = next((each for each in problems if isinstance(each, Unknown)), None)
    if len(problems) == len(parcels) or unclear is not None:
        raise unclear or problems[0]
    raise Unknown("a part of the batch is stored, the rest is not") from problems[0]


def _counted(parcels: list[_Parcel]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for parcel in parcels:
        counts[parcel.domain] = counts.get(parcel.domain, 0) + len(parcel.events)
    return counts
