"""The writer: appends events to a stream of its own, many callers to a segment (P15, P16).

While a create is in flight, appends gather for the next segment; without one, a group closes a single
scheduler turn after it opened. There is no linger, and one create is in flight at a time. A segment of
unknown outcome is settled, with its very bytes, before the next is made. Who meets a seal opens another
stream and appends there before anything is acknowledged.

Cost of an append: one durable create, shared by all that arrived meanwhile.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from arco.core import json
from arco.core.errors import ArcoError, Conflict, Corrupt, Invalid, Unavailable, Unknown
from arco.core.ids import Ulid
from arco.core.tasks import AsyncEvent, Task
from arco.ledger.envelope import Envelope, RowCount
from arco.ledger.segment import (
    LARGEST_BYTES,
    Segment,
    encode_seal,
    encode_segment,
    find_segment,
    segment_key,
)
from arco.ledger.slot import register, slots_of
from arco.storage.chain import FRESH_MS
from arco.storage.store import Store

DEFAULT_LIFE_MS = 24 * 3_600_000

_GROUP_BYTES = 4 * 1024 * 1024  # a group at least this large takes no more callers
# A segment that becomes this many rows takes no more callers either: one task of compaction reads it.
SEGMENT_ROWS = 200_000
SEGMENT_ROW_BYTES = 128 * 1024 * 1024
_STREAMS_TRIED = 4  # how many seals in a row before a writer admits that something is wrong


@dataclass(frozen=True)
class Receipt:
    """Where a call's events are: lines `first_line` and following of one segment."""

    stream: str
    seq: int
    first_line: int
    events: int


@dataclass
class _Group:
    """Calls that share a segment."""

    done: AsyncEvent
    lines: list[bytes] = field(default_factory=list)
    size_bytes: int = 0
    count: RowCount = field(default_factory=RowCount)
    segment: Segment | None = None
    problem: Exception | None = None


@dataclass
class _Stream:
    """The stream that this writer has open."""

    id: Ulid
    opened_ms: float
    next_seq: int = 0
    unsettled: bytes | None = None  # a segment `next_seq` that may or may not be there


class Rings(Protocol):
    """Whoever wants to hear of new segments at once; see `Bell`."""

    def ring(self, stream: str, segment: Segment | None = None, /) -> None:
        """`stream` has a new segment, which is durable: this one, if it is given."""


class Writer:
    """One process's way into the ledger of one domain."""

    def __init__(
        self,
        store: Store,
        domain: str,
        *,
        life_ms: int = DEFAULT_LIFE_MS,
        bell: Rings | None = None,
    ) -> None:
        self._store = store
        self._domain = domain
        self._life_ms = life_ms
        self._bell = bell
        self._tasks = store.runtime.tasks
        self._clock = store.runtime.clock
        self._slots = slots_of(store, domain)
        self._stream: _Stream | None = None
        self._groups: deque[_Group] = deque()
        self._pump: Task[None] | None = None
        self._closed = False

    async def append(self, events: Sequence[Envelope]) -> Receipt:
        """Durable on return. `Unknown`: may be stored; `Unavailable`: is not, retry."""
        return await self.append_lines([json.encode(event) for event in events])

    async def append_lines(self, lines: Sequence[bytes], count: RowCount | None = None) -> Receipt:
        """`append` for events that are encoded already, and the rows they become; None: one each."""
        if self._closed:
            raise Unavailable("this writer is closed")
        size = sum(map(len, lines)) + len(lines)
        if not lines or size > LARGEST_BYTES:
            raise Invalid(f"an append has 1 or more events and at most {LARGEST_BYTES} bytes")
        count = count or RowCount(len(lines))
        group = self._group_for(size, count)
        first_line = len(group.lines) + 1
        group.lines += lines
        group.size_bytes += size
        group.count = group.count.plus(count)
        if self._pump is None or self._pump.done():
            self._pump = self._tasks.spawn(self._run())
        await group.done.wait()
        if group.segment is None:
            raise group.problem or Unknown("the append ended without an answer")
        return Receipt(group.segment.stream, group.segment.seq, first_line, len(lines))

    async def close(self) -> None:
        """Take no more, finish what was taken, and seal the stream."""
        self._closed = True
        if self._pump is not None:
            await self._pump.wait()
        await self._seal()
        await self._slots.close()

    def _group_for(self, size: int, count: RowCount) -> _Group:
        last = self._groups[-1] if self._groups else None
        if (
            last is None
            or last.size_bytes + size > _GROUP_BYTES
            or last.count.plus(count).is_above(SEGMENT_ROWS, SEGMENT_ROW_BYTES)
        ):
            last = _Group(self._tasks.event())
            self._groups.append(last)
        return last

    async def _run(self) -> None:
        while self._groups:
            await self._tasks.turn()
            group = self._groups.popleft()
            try:
                group.segment = await self._store_group(group)
            except Exception as problem:
                group.problem = problem
            group.done.set()
            if group.segment is not None and self._bell is not None:
                self._bell.ring(group.segment.stream, group.segment)

    async def _store_group(self, group: _Group) -> Segment:
        for _ in range(_STREAMS_TRIED):
            stream = await self._live_stream()
            body = encode_segment(self._store.runtime, stream.id, stream.next_seq, group.lines)
            if await self._create(stream, body):
                return Segment(stream.id, stream.next_seq - 1, False, body)
        raise Unavailable("every stream that was opened had been sealed; retry")

    async def _live_stream(self) -> _Stream:
        """A stream that is open, young enough, and whose last segment is known to be there."""
        stream = self._stream
        if stream is not None and self._clock.elapsed_ms() - stream.opened_ms > self._life_ms / 2:
            await self._seal()
        elif stream is not None and stream.unsettled is not None:
            try:
                await self._create(stream, stream.unsettled)
            except Unknown as unclear:
                raise Unavailable("an earlier segment is still unsettled; retry") from unclear
        if self._stream is None:
            opened = self._clock.elapsed_ms()
            slot = await register(self._slots, self._life_ms)
            self._stream = _Stream(Ulid(slot.stream), opened)
        return self._stream

    async def _create(self, stream: _Stream, body: bytes) -> bool:
        """Whether the next segment is there with these bytes; False if the stream was sealed."""
        key = segment_key(self._domain, stream.id, stream.next_seq)
        started = self._clock.elapsed_ms()
        try:
            await self._store.create(key, body)
        except Conflict as met:
            self._stream = None
            if self._clock.elapsed_ms() - started > FRESH_MS:
                # We slept: our segment may have been folded and collected before the seal came.
                raise Unknown("the stream was sealed while this append was asleep") from met
            found = await find_segment(self._store, self._domain, stream.id, stream.next_seq)
            if found is None or not found.seal:
                raise Corrupt(f"another writer is in stream {stream.id}") from None
            return False
        except Unknown:
            stream.unsettled = body
            raise
        stream.unsettled = None
        stream.next_seq += 1
        return True

    async def _seal(self) -> None:
        """End the stream, if that can be done; if not, the janitor will."""
        stream, self._stream = self._stream, None
        if stream is None:
            return
        try:
            if stream.unsettled is not None and not await self._create(stream, stream.unsettled):
                return
            seal = encode_seal(self._store.runtime, stream.id, stream.next_seq)
            await self._create(stream, seal)
        except ArcoError:
            return
