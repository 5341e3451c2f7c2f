"""Sending the ledger's tail to an SQL process, which makes rows of it within the limits."""

from collections.abc import Container, Iterator, Sequence

from arco.events.row_count import total
from arco.ledger.envelope import RowCount
from arco.query.limits import Limits
from arco.query.needs import State
from arco.query.tail import Tail, TailSegment
from arco.query.talk import Talk
from arco.query.wire import Segments, SegmentSlice

_MESSAGE_BYTES = 8 * 1024 * 1024  # of segments in one message; one that is larger goes alone


async def send_tail(
    talk: Talk, state: State, tail: Tail, lacking: Container[str], limits: Limits
) -> None:
    """Send the segments whose rows of a table are among the `lacking` keys.

    `BacklogTooLarge` if all segments together make more rows of it than a fresh read takes.
    """
    table, most = state.table.name, limits.fresh_room
    room = tail.check_rows(table, most)
    missing = [each for each in tail.segments if tail.segment_key(table, each.segment) in lacking]
    for batch in _batches(missing):
        # Those that another process has expanded before are counted already.
        counted = total(each.row_counts.get(table, RowCount()) for each in batch)
        message = Segments(
            state=state.name,
            segments=tuple(_slice(tail, table, each) for each in batch),
            retained_from=dict(tail.retained_from),
            room=room.plus(counted),
        )
        counts = await talk.expand(message, b"".join(each.segment.raw for each in batch))
        for each, count in zip(batch, counts, strict=True):
            each.row_counts[table] = count
        room = tail.check_rows(table, most)


def _slice(tail: Tail, table: str, each: TailSegment) -> SegmentSlice:
    segment = each.segment
    key = tail.segment_key(table, segment)
    return SegmentSlice(key, segment.stream, segment.seq, len(segment.raw))


def _batches(segments: Sequence[TailSegment]) -> Iterator[list[TailSegment]]:
    batch: list[TailSegment] = []
    size_bytes = 0
    for each in segments:
        if batch and size_bytes + len(each.segment.raw) > _MESSAGE_BYTES:
            yield batch
            batch, size_bytes = [], 0
        batch.append(each)
        size_bytes += len(each.segment.raw)
    if batch:
        yield batch
