"""Sending events in batches, and events in quarantine. `EventClient` sends in the background instead."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from arco.client.models import (
    AppendedEvents,
    QuarantineLine,
    QueryResult,
    RejectedLine,
    ReplayedEvent,
    decode,
)
from arco.client.transport import Transport
from arco.core import json
from arco.core.errors import Invalid

_WAITING = (
    "SELECT domain, stream, segment, line FROM system.quarantine WHERE replayed_at IS NULL "
    "ORDER BY received_at, domain, stream, segment, line"
)


@dataclass(frozen=True)
class SentLines:
    """What became of lines of a file."""

    accepted: int = 0
    duplicates: int = 0
    rejected: tuple[RejectedLine, ...] = ()

    def __add__(self, other: "SentLines") -> "SentLines":
        return SentLines(
            self.accepted + other.accepted,
            self.duplicates + other.duplicates,
            self.rejected + other.rejected,
        )


class EventsApi:
    """Appends events to the ledger; what was answered is durable."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def send(self, events: Sequence[object]) -> AppendedEvents:
        """Append a batch, at most 10,000 events; those that are rejected are named in the result."""
        return decode(self._transport.change("POST", "/events", events), AppendedEvents)

    def send_lines(self, lines: Sequence[bytes], *, first: int = 1) -> SentLines:
        """Append lines of a file, each a JSON document; `first` is the number of the first line.

        A line that is not JSON is rejected without the others, and so is each line of a batch in which none
        is accepted.
        """
        numbers: list[int] = []
        events: list[msgspec.Raw] = []
        rejected: list[RejectedLine] = []
        for number, line in enumerate(lines, start=first):
            if not line.strip():
                continue
            try:
                json.decode(line, dict)  # otherwise the whole batch would be rejected
            except Invalid as problem:
                rejected.append(RejectedLine(number, str(problem)))
            else:
                numbers.append(number)
                events.append(msgspec.Raw(line.strip()))
        if not events:
            return SentLines(rejected=tuple(rejected))
        try:
            appended = self.send(events)
        except Invalid as problem:  # all of them
            see = f"every line of its batch was; see line {numbers[0]}"
            rejected.append(RejectedLine(numbers[0], str(problem)))
            rejected += [RejectedLine(number, see) for number in numbers[1:]]
            return SentLines(rejected=tuple(rejected))
        rejected += [RejectedLine(numbers[each.line - 1], each.reason) for each in appended.refused]
        return SentLines(appended.accepted, len(appended.duplicates), tuple(rejected))


class QuarantineApi:
    """Events that were acknowledged and could not be folded."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> Iterator[QuarantineLine]:
        """The events in quarantine that were not replayed yet, oldest first."""
        raw = self._transport.post("/query", {"sql": _WAITING})
        for row in decode(raw, QueryResult).rows:
            yield QuarantineLine(*row)

    def replay(self, line: QuarantineLine) -> ReplayedEvent:
        """Send the event of a line again; `Invalid` or `AlreadyExists` if it has to stay."""
        return decode(self._transport.change("POST", "/quarantine/replay", line), ReplayedEvent)
