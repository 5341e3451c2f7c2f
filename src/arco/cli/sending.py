"""Sending one batch of events, each line of which may be refused without the others."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from arco.cli.remote import Remote
from arco.core import json
from arco.core.errors import Invalid


class Refusal(msgspec.Struct, frozen=True):
    """A line that was not stored."""

    line: int
    reason: str


class _Appended(msgspec.Struct, frozen=True):
    accepted: int
    duplicates: list[msgspec.Raw]
    refused: list[Refusal]


@dataclass(frozen=True)
class Sent:
    """What became of some lines."""

    accepted: int
    duplicates: int
    refused: tuple[Refusal, ...]

    def __add__(self, other: "Sent") -> "Sent":
        return Sent(
            self.accepted + other.accepted,
            self.duplicates + other.duplicates,
            self.refused + other.refused,
        )


def send_batch(remote: Remote, first: int, lines: Sequence[bytes]) -> Sent:
    """Send lines, of which the first has this number in its file."""
    numbers: list[int] = []
    events: list[msgspec.Raw] = []
    refused: list[Refusal] = []
    for number, line in enumerate(lines, start=first):
        if not line.strip():
            continue
        try:
            json.decode(line, dict)  # or it would break the batch
        except Invalid as problem:
            refused.append(Refusal(number, str(problem)))
        else:
            numbers.append(number)
            events.append(msgspec.Raw(line.strip()))
    if not events:
        return Sent(0, 0, tuple(refused))
    try:
        answer = json.decode(remote.change("POST", "/events", events), _Appended)
    except Invalid as problem:  # all of them
        see = f"every line of its batch was; see line {numbers[0]}"
        refused.append(Refusal(numbers[0], str(problem)))
        refused += [Refusal(number, see) for number in numbers[1:]]
        return Sent(0, 0, tuple(refused))
    refused += [Refusal(numbers[each.line - 1], each.reason) for each in answer.refused]
    return Sent(answer.accepted, len(answer.duplicates), tuple(refused))
