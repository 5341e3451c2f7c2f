"""The door: takes a body of many events apart, and refuses line by line.

A bad line costs its sender that line and nothing else. Nothing of a refused line is stored.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from arco.core import json
from arco.core.errors import Invalid
from arco.core.runtime import Runtime
from arco.ledger.envelope import Envelope, EventTypes, admit

LARGEST_BATCH = 10_000


@dataclass(frozen=True)
class Refusal:
    """A line that was not taken, counted from 1, and why."""

    line: int
    reason: str


@dataclass(frozen=True)
class Admission:
    """What became of a batch: the lines taken, by their number, and the lines refused."""

    accepted: dict[int, Envelope]
    refused: list[Refusal]


def admit_lines(body: bytes, types: EventTypes, runtime: Runtime) -> Admission:
    """The events of an NDJSON body; empty lines are counted and passed over."""
    return _admit_all(body.split(b"\n"), types, runtime)


def admit_array(body: bytes, types: EventTypes, runtime: Runtime) -> Admission:
    """The events of a JSON array; `Invalid` if the body as a whole is not one."""
    events = json.decode(body, list[msgspec.Raw])
    return _admit_all((bytes(event) for event in events), types, runtime)


def _admit_all(lines: Iterable[bytes], types: EventTypes, runtime: Runtime) -> Admission:
    accepted: dict[int, Envelope] = {}
    refused: list[Refusal] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        if len(accepted) + len(refused) == LARGEST_BATCH:
            raise Invalid(f"a batch has at most {LARGEST_BATCH} events; send the rest in another")
        try:
            accepted[number] = admit(line, types, runtime)
        except Invalid as problem:
            refused.append(Refusal(number, str(problem)))
    return Admission(accepted, refused)
