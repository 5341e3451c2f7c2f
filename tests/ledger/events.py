"""Events for tests: two types, one of them in two versions."""

from collections.abc import AsyncIterator

import msgspec

from arco.core.clock import utc
from arco.core.errors import Conflict
from arco.core.ids import new_ulid
from arco.core.runtime import Runtime
from arco.core.tasks import AsyncEvent, Tasks
from arco.ledger.envelope import Envelope, EventType, EventTypes, RowVolume, Source
from arco.ledger.follower import SegmentBatch, SegmentFollower
from arco.ledger.segment import Segment, decode_event, find_segment
from arco.ledger.stream import Watermark
from arco.storage.store import Store


class Started(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    task: str
    attempt: int = 1


class Note(msgspec.Struct, frozen=True):
    text: str


class Spread(msgspec.Struct, frozen=True):
    """A few bytes that become many rows."""

    rows: int
    text_bytes: int = 0


def _count(spread: Spread) -> RowVolume:
    return RowVolume(spread.rows, spread.text_bytes)


TYPES = EventTypes(
    [
        EventType("task_started", 1, Started),
        EventType("task_started", 2, Started),
        EventType("note", 1, Note),
        EventType("spread", 1, Spread, _count),
    ]
)

LINE = (
    b'{"event_type":"task_started","event_version":1,"occurred_at":"2026-05-01T10:00:00+02:00",'
    b'"source":{"type":"test"},"payload":{"task":"a"}}'
)


def note(runtime: Runtime, text: str = "hello") -> Envelope:
    now = utc(runtime.clock.now_ms())
    return Envelope(
        event_id=new_ulid(runtime),
        event_type="note",
        event_version=1,
        occurred_at=now,
        received_at=now,
        idempotency_key=text,
        source=Source("test"),
        payload=msgspec.Raw(msgspec.json.encode(Note(text))),
    )


async def read_segments(store: Store, domain: str, batch: SegmentBatch | None) -> list[Segment]:
    """The segments of a batch from the store; seals are left out."""
    segments = []
    for each in [] if batch is None else batch.segments:
        if not each.seal:
            segment = await find_segment(store, domain, each.stream, each.seq)
            if segment is None:
                raise Conflict(f"segment {each.seq} of {each.stream} was collected")
            segments.append(segment)
    return segments


async def read_events(store: Store, domain: str, batch: SegmentBatch | None) -> list[Envelope]:
    segments = await read_segments(store, domain, batch)
    return [decode_event(line) for segment in segments for line in segment.lines]


async def all_events(store: Store, domain: str) -> list[Envelope]:
    """All events in the ledger of a domain."""
    batch = await SegmentFollower(store, domain, Watermark()).poll(everything=True)
    return await read_events(store, domain, batch)


class StreamNotifications:
    """The streams that have new segments since the last call of `wait`."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._event: AsyncEvent = tasks.event()
        self._streams: dict[str, None] = {}

    def notify(self, stream: str, _segment: Segment | None = None, /) -> None:
        """`stream` has a new segment."""
        self._streams[stream] = None
        self._event.set()

    async def wait(self, ms: float) -> list[str]:
        """The notified streams, as soon as there is one; none after `ms`."""
        try:
            await self._tasks.deadline(ms, self._event.wait())
        except TimeoutError:
            return []
        self._event.clear()
        streams, self._streams = list(self._streams), {}
        return streams


async def follow(
    follower: SegmentFollower, notifications: StreamNotifications
) -> AsyncIterator[SegmentBatch]:
    """Batches as they come, for ever, as a compactor does."""
    while True:
        batch = await follower.poll()
        if batch is not None:
            yield batch
        else:
            follower.notify(await notifications.wait(follower.due_in_ms()))
