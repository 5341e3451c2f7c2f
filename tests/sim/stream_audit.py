"""The auditor of streams: compares the answers to users with what was stored and what was folded."""

from collections import Counter
from typing import TYPE_CHECKING

from arco.core.scope import Scope
from arco.ledger.segment import Segment, decode_event, decode_segment

from .objects import SimObjects

if TYPE_CHECKING:
    from .stream_scenario import StreamNotes

Place = tuple[str, int, int]  # stream, segment, line


class StreamAudit:
    """Judges one run."""

    def __init__(self, objects: SimObjects, notes: "StreamNotes", domain: str) -> None:
        self._notes = notes
        self._segments = _created(objects, f"{Scope().prefix}ledger/{domain}/")
        self._folded = [line for each in notes.published for line in each.folded]

    def all_folded(self) -> bool:
        """Whether every event in every segment that was ever stored has been folded."""
        return len(self._stored() - {(s, q, n) for s, q, n, _ in self._folded}) == 0

    def violations(self) -> list[str]:
        """What is wrong, one sentence each."""
        violations = (
            [] if self._notes.caught_up else ["not everything was appended and folded in the calm"]
        )
        violations += self._misplaced()
        times = Counter((stream, seq, line) for stream, seq, line, _ in self._folded)
        violations += [f"{place} was folded {n} times" for place, n in times.items() if n > 1]
        violations += [
            f"{place} was stored and never folded" for place in sorted(self._lost(times))
        ]
        violations += self._reused()
        return violations

    def _misplaced(self) -> list[str]:
        """Acknowledged events that are not folded where their receipt says, or not at all."""
        at = {(stream, seq, line): name for stream, seq, line, name in self._folded}
        violations = []
        for intent in self._notes.intents:
            if intent.receipt is None:
                continue
            place = (intent.receipt.stream, intent.receipt.seq, intent.receipt.first_line)
            if at.get(place) != intent.name:
                violations.append(
                    f"{intent.name} was acknowledged at {place}, which holds {at.get(place)}"
                )
        return violations

    def _lost(self, folded: Counter[Place]) -> set[Place]:
        return self._stored() - set(folded) if self._notes.caught_up else set()

    def _stored(self) -> set[Place]:
        return {
            (segment.stream, segment.seq, line)
            for segment in self._segments
            for line in range(1, len(segment.lines) + 1)
        }

    def _reused(self) -> list[str]:
        """A number of a stream that held two different segments, or one beyond its seal.

        A writer that slept through the retention may create the very bytes again that were folded and
        collected: they stay below the watermark, and a receipt for them is true.
        """
        different = Counter((each.stream, each.seq) for each in dict.fromkeys(self._segments))
        violations = [f"segment {place} held {n} bodies" for place, n in different.items() if n > 1]
        seals = {segment.stream: segment.seq for segment in self._segments if segment.seal}
        return violations + [
            f"segment {segment.seq} of {segment.stream} stands above its seal"
            for segment in self._segments
            if segment.seq > seals.get(segment.stream, segment.seq)
        ]


def _created(objects: SimObjects, prefix: str) -> list[Segment]:
    segments = []
    for change in objects.log:
        if change.verb == "create" and change.key.startswith(prefix):
            stream, _, name = change.key.removeprefix(prefix).partition("/")
            segments.append(decode_segment(change.body, stream, int(name.partition(".")[0])))
            for line in segments[-1].lines:
                decode_event(line)
    return segments
