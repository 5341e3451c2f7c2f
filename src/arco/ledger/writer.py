"""Writers: each appends events to its own stream, and many callers share a segment (P15, P16).

While a create is in flight, appends are grouped for the next segment; otherwise a group closes one
scheduler turn after it opened. One create is in flight at a time. A segment of unknown outcome is settled,
with same bytes, before the next is created. A writer that meets a seal opens another stream and appends
there before it acknowledges anything.

Cost of an append: one durable create, shared by all that arrived meanwhile.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol

from arco.core import json
from arco.core.errors import ArcoError, Conflict, Corrupt, Invalid, Unavailable, Unknown
from arco.core.ids import Ulid
from arco.core.tasks import AsyncEvent, Task
from arco.ledger.envelope import Envelope, RowVolume
from arco.ledger.segment import (
    MAX_BYTES,
    Segment,
    encode_seal,
    encode_segment,
    find_segment,
    segment_key,
)
from arco.ledger.stream import register_stream, slot_chain
from arco.storage.chain import FRESH_MS
from arco.storage.store import Store

DEFAULT_LIFE_MS = 24 * 3_600_000

_GROUP_BYTES = 4 * 1024 * 1024  # a group at least this large takes no more callers
# A segment that becomes this many rows takes no more callers: one task of compaction reads it.
SEGMENT_ROWS = 200_000
SEGMENT_ROW_BYTES = 128 * 1024 * 1024
_STREAMS_TRIED = 4  # seals in a row before an append fails


@dataclass(frozen=True)
class AppendReceipt:
    """Where the events of an append are: in one segment, from `first_line` on."""

    stream: str
    seq: int
    first_line: int
    events: int


class SegmentPosition(NamedTuple):
    """A segment of a stream, which may not exist yet."""

    stream: str
    seq: int


@dataclass
class _Group:
    """Calls that share a segment."""

    done: AsyncEvent
    lines: list[bytes] = field(default_factory=list)
    size_bytes: int = 0
    count: RowVolume = field(default_factory=RowVolume)
    segment: Segment | None = None
    problem: Exception | None = None


@dataclass
class _Stream:
    """The stream that this writer has open."""

    id: Ulid
    opened_ms: float
    next_seq: int = 0
    unsettled: bytes | None = None  # segment `next_seq`, which may or may not exist


class SegmentListener(Protocol):
    """A function that is called for each new segment of any domain."""

    def __call__(self, domain: str, stream: str, segment: Segment | None = None, /) -> None:
        """A stream of a domain has a new, durable segment; the writer passes the segment itself."""


def ignore_segment(_domain: str, _stream: str, _segment: Segment | None = None, /) -> None:
    """The listener where followers only probe."""


class LedgerWriter:
    """Appends to the ledger of one domain, on behalf of one process."""

    def __init__(
        self,
        store: Store,
        domain: str,
        *,
        life_ms: int = DEFAULT_LIFE_MS,
        notify: Callable[[str, Segment], None] | None = None,
    ) -> None:
        self._store = store
        self._domain = domain
        self._life_ms = life_ms
        self._notify = notify
        self._tasks = store.runtime.tasks
        self._clock = store.runtime.clock
        self._slots = slot_chain(store, domain)
        self._stream: _Stream | None = None
        self._groups: deque[_Group] = deque()
        self._pump: Task[None] | None = None
        self._closed = False

    async def append(self, events: Sequence[Envelope]) -> AppendReceipt:
        """Append events, durably on return. `Unknown`: perhaps stored; `Unavailable`: not stored, retry."""
        return await self.append_lines([json.encode(event) for event in events])

    async def append_lines(
        self, lines: Sequence[bytes], count: RowVolume | None = None
    ) -> AppendReceipt:
        """`append` for encoded events, which become `count` rows; None: one row each."""
        if self._closed:
            raise Unavailable("this writer is closed")
        size = sum(map(len, lines)) + len(lines)
        if not lines or size > MAX_BYTES:
            raise Invalid(f"an append has 1 or more events and at most {MAX_BYTES} bytes")
        count = count or RowVolume(len(lines))
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
        return AppendReceipt(group.segment.stream, group.segment.seq, first_line, len(lines))

    async def next_segment(self) -> SegmentPosition:
        """Where the next append goes, for a process that makes one append at a time.

        The receipt tells where it went: the stream may be sealed meanwhile.
        """
        stream = await self._live_stream()
        return SegmentPosition(stream.id, stream.next_seq)

    async def close(self) -> None:
        """Refuse new appends, finish the accepted ones, and seal the stream."""
        self._closed = True
        if self._pump is not None:
            await self._pump.wait()
        await self._seal()
        await self._slots.close()

    def _group_for(self, size: int, count: RowVolume) -> _Group:
        group = self._groups[-1] if self._groups else None
        if (
            group is None
            or group.size_bytes + size > _GROUP_BYTES
            or group.count.plus(count).is_above(SEGMENT_ROWS, SEGMENT_ROW_BYTES)
        ):
            group = _Group(self._tasks.event())
            self._groups.append(group)
        return group

    async def _run(self) -> None:
        while self._groups:
            await self._tasks.turn()
            group = self._groups.popleft()
            try:
                group.segment = await self._store_group(group)
            except Exception as problem:
                group.problem = problem
            group.done.set()
            if group.segment is not None and self._notify is not None:
                self._notify(group.segment.stream, group.segment)

    async def _store_group(self, group: _Group) -> Segment:
        for _ in range(_STREAMS_TRIED):
            stream = await self._live_stream()
            body = encode_segment(self._store.runtime, stream.id, stream.next_seq, group.lines)
            if await self._create(stream, body):
                return Segment(stream.id, stream.next_seq - 1, False, body)
        raise Unavailable("every stream that was opened had been sealed; retry")

    async def _live_stream(self) -> _Stream:
        """A stream that is open, young enough, and whose last segment is known to exist."""
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
            slot = await register_stream(self._slots, self._life_ms)
            self._stream = _Stream(Ulid(slot.stream), opened)
        return self._stream

    async def _create(self, stream: _Stream, body: bytes) -> bool:
        """Create the next segment with these bytes; False if the stream was sealed."""
        key = segment_key(self._domain, stream.id, stream.next_seq)
        started = self._clock.elapsed_ms()
        try:
            await self._store.create(key, body)
        except Conflict as conflict:
            self._stream = None
            if self._clock.elapsed_ms() - started > FRESH_MS:
                # This process slept: the segment may have been folded and collected before the seal.
                raise Unknown("the stream was sealed while this append was suspended") from conflict
            segment = await find_segment(self._store, self._domain, stream.id, stream.next_seq)
            if segment is None or not segment.seal:
                raise Corrupt(f"another writer has written to stream {stream.id}") from None
            return False
        except Unknown:
            stream.unsettled = body
            raise
        stream.unsettled = None
        stream.next_seq += 1
        return True

    async def _seal(self) -> None:
        """Seal the stream, best effort: garbage collection seals it otherwise."""
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


class DomainWriters:
    """One writer for each of `domains`, shared by all that append there; `notify` gets every new segment.

    Each writer has its own stream, which the compactor has to probe, so a process has one for each domain.
    """

    def __init__(
        self, store: Store, domains: Iterable[str], *, notify: SegmentListener = ignore_segment
    ) -> None:
        self.store = store
        self._writers = {
            domain: LedgerWriter(store, domain, notify=partial(notify, domain))
            for domain in domains
        }

    def of(self, domain: str) -> LedgerWriter:
        """The writer of one domain."""
        try:
            return self._writers[domain]
        except KeyError:
            raise Invalid(f"this process has no writer for the domain {domain!r}") from None

    async def close(self) -> None:
        """Finish accepted appends, and seal the streams."""
        await self.store.runtime.tasks.gather(*(each.close() for each in self._writers.values()))
