"""Histories: lines of the ledger, as good or bad as they come, all made from one seed.

Clocks are wrong, senders repeat themselves under another id, one id is given twice, and some lines nobody
can fold. Of some tables it is said from when on they keep what they are told.
"""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from random import Random
from typing import Any

from arco.core.errors import Invalid
from arco.events.registry import ANY_DOMAIN, KINDS, EventKind, find_kind
from arco.fold.tier2 import EXECUTIONS_DOMAIN, TIER2
from tests.differential.payload import payload_of
from tests.differential.story import Step, Story
from tests.differential.words import EXECUTIONS, NOON

_SHARED = "01M7FVEX5Z0000000000000000"
_BROKEN = (
    b"",
    b"{",
    b"\xff\xfe",
    b'{"event_type":"nobody_knows","event_version":1}',
    b'{"event_type":"task_started","event_version":1,"received_at":"2026-05-01T12:00:00Z"}',
)


@dataclass(frozen=True)
class Event:
    """A line, and what it says as JSON; None if nobody can fold it."""

    line: bytes
    said: dict[str, Any] | None


@dataclass(frozen=True)
class History:
    """The events of one domain, and the oldest that its tables still want."""

    domain: str
    events: tuple[Event, ...]
    bounds: dict[str, datetime]

    @property
    def lines(self) -> list[bytes]:
        return [event.line for event in self.events]


def histories_of(seed: int) -> list[History]:
    """What happened, by domain."""
    return [history_of(seed, domain) for domain in TIER2]


def history_of(seed: int, domain: str) -> History:
    rng = Random(f"{seed}/{domain}")
    steps = _steps(rng, domain)
    maker = _Maker(rng, domain)
    events = [event for step in steps for event in maker.events(step)]
    events += [maker.broken() for _ in range(rng.choice((0, 0, 1, 2)))]
    rng.shuffle(events)
    tables = TIER2[domain] if rng.random() < 0.5 else ()
    bounds = {
        name: NOON + timedelta(seconds=rng.randrange(-20, 60))
        for name in tables
        if rng.random() < 0.5
    }
    return History(domain, tuple(events), bounds)


def _steps(rng: Random, domain: str) -> list[Step]:
    steps: list[Step] = []
    if domain == EXECUTIONS_DOMAIN:
        for execution_id in rng.sample(EXECUTIONS, rng.randint(1, 2)):
            steps += Story(rng, execution_id).steps()
    kinds = _kinds(domain)
    for _ in range(rng.randint(3, 15)):
        kind = rng.choice(kinds)
        payload = payload_of(rng, kind.type.payload)
        steps.append(Step(kind.name, payload, rng.randrange(90)))
    return steps


@cache
def _kinds(domain: str) -> list[EventKind]:
    found = [kind for kind in KINDS if kind.domain in (domain, ANY_DOMAIN)]
    return sorted(found, key=lambda kind: (kind.name, kind.version))


class _Maker:
    """Makes lines of what happened."""

    def __init__(self, rng: Random, domain: str) -> None:
        self._rng = rng
        self._domain = domain
        self._count = 0

    def events(self, step: Step) -> list[Event]:
        """The line of a step, and another if its sender did not hear that it had been taken."""
        rng = self._rng
        occurred = step.second + rng.choice((0, 0, 0, 0.25, -86_400, 7_200))  # a clock may be wrong
        told = [self._said(step, occurred)]
        if rng.random() < 0.1:
            told.append(
                {**told[0], "event_id": self._id(), "received_at": _time(step.second + 300)}
            )
        if rng.random() < 0.1:  # an id that others have too
            told.append({**self._said(step, occurred + 1), "event_id": _SHARED})
        if rng.random() < 0.1:  # under one id something else
            more = payload_of(rng, find_kind(step.name, 1).type.payload)
            told.append({**told[0], "payload": {**more, **step.payload}})
        if rng.random() < 0.1:
            told.append({**told[0], "event_type": rng.choice(_kinds(self._domain)).name})
        return [_event(each) for each in told]

    def broken(self) -> Event:
        """A line that nobody can fold, for one of many reasons."""
        rng, domain = self._rng, self._domain
        if rng.random() < 0.4:
            return Event(rng.choice(_BROKEN), None)
        stranger = rng.choice([kind for kind in KINDS if kind.domain not in (domain, ANY_DOMAIN)])
        said = self._said(Step(stranger.name, stranger.example, rng.randrange(60)), 0)
        spoiled = rng.choice(
            (
                said,
                {**said, "event_version": 99},
                {**said, "payload": 7},
                {**said, "payload": {**stranger.example, "no_such_field": 1}},
                {**said, "received_at": "yesterday"},
            )
        )
        return Event(_line(spoiled), None)

    def _said(self, step: Step, occurred: float) -> dict[str, Any]:
        rng = self._rng
        source: dict[str, Any] = {"type": "worker"}
        if rng.random() < 0.3:
            source["sequence"] = rng.randrange(3)
        if rng.random() < 0.3:
            source["execution_id"] = rng.choice(EXECUTIONS)
        return {
            "event_id": self._id(),
            "event_type": step.name,
            "event_version": 1,
            "occurred_at": _time(occurred),
            "received_at": _time(step.second + rng.choice((0, 0, 1, 30))),
            "idempotency_key": f"key-{rng.randrange(12)}",
            "source": source,
            "payload": step.payload,
        }

    def _id(self) -> str:
        """An id of its own, which says nothing of when it was given."""
        self._count += 1
        return f"01M7FVEX5Z{self._rng.randrange(1, 10**9):09d}{self._count:07d}"


def _time(second: float) -> str:
    return (NOON + timedelta(seconds=second)).isoformat()


def _event(said: dict[str, Any]) -> Event:
    """An event of a kind that belongs here; by chance its payload may still be one that is refused."""
    line = _line(said)
    try:
        find_kind(said["event_type"], 1).type.read(json.dumps(said["payload"]).encode())
    except Invalid:
        return Event(line, None)
    return Event(line, said)


def _line(said: dict[str, Any]) -> bytes:
    return json.dumps(said, ensure_ascii=False).encode()
