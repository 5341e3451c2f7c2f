"""The door: takes a body of many events apart, and refuses line by line.

A bad line costs its sender that line and nothing else. Nothing of a refused line is stored.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from arco.core import json
from arco.core.errors import Invalid
from arco.core.runtime import Runtime
from arco.ledger.envelope import Admitted, EventTypes, Stamp, admit

LARGEST_BATCH = 10_000

_LONGEST_REASON = 300  # a reason may quote what was sent
_AT_ONCE = 500  # lines, between which other requests get their turn


@dataclass(frozen=True)
class Refusal:
    """A line that was not taken, counted from 1, and why."""

    line: int
    reason: str


@dataclass(frozen=True)
class Admission:
    """What became of a batch: the lines taken, by their number, and the lines refused."""

    accepted: dict[int, Admitted] = field(default_factory=dict)
    refused: list[Refusal] = field(default_factory=list)


def split_lines(body: bytes) -> list[bytes]:
    """The lines of an NDJSON body; empty ones stay, since they count."""
    return _bounded(body.split(b"\n"))


def split_array(body: bytes) -> list[bytes]:
    """The elements of a JSON array; `Invalid` if the body as a whole is not one."""
    return _bounded([bytes(event) for event in json.decode(body, list[msgspec.Raw])])


async def admit_all(
    lines: Sequence[bytes], types: EventTypes, stamp: Stamp, runtime: Runtime
) -> Admission:
    """All events of a batch; empty lines are counted and passed over."""
    admission = Admission()
    for start in range(0, len(lines), _AT_ONCE):
        if start:
            await runtime.tasks.turn()
        _admit_some(lines, start, types, stamp, admission)
    return admission


def _admit_some(
    lines: Sequence[bytes], start: int, types: EventTypes, stamp: Stamp, admission: Admission
) -> None:
    accepted, refused = admission.accepted, admission.refused
    number = len(accepted) + len(refused)
    for place, line in enumerate(lines[start : start + _AT_ONCE], start=start + 1):
        if not line or line.isspace():
            continue
        try:
            accepted[place] = admit(line, types, stamp, number)
        except Invalid as problem:
            refused.append(Refusal(place, str(problem)[:_LONGEST_REASON]))
        number += 1


def _bounded(lines: list[bytes]) -> list[bytes]:
    if len(lines) > LARGEST_BATCH:
        count = sum(1 for line in lines if line and not line.isspace())
        if count > LARGEST_BATCH:
            raise Invalid(f"a batch has at most {LARGEST_BATCH} events; send the rest in another")
    return lines
