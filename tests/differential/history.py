"""Random histories: lines of the ledger of one domain, all made from one seed.

Clocks are wrong, senders repeat themselves under another id, one id is given twice, and some lines cannot
be folded. Some tables have a retention bound.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from random import Random
from typing import Any, NamedTuple

from arco.core.errors import Invalid
from arco.events.registry import ANY_DOMAIN, KINDS, EventKind, find_kind
from arco.fold.tier2 import EXECUTIONS_DOMAIN, TIER2
from tests.differential.vocabulary import EXECUTIONS, KEYS, NOON, TABLES, TASKS, VALUES, payload_of


class Step(NamedTuple):
    """Something that happened so many seconds after the story began."""

    name: str
    payload: dict[str, Any]
    second: float


class ExecutionStory:
    """One execution, from its request to an end, or to none."""

    def __init__(self, rng: Random, execution_id: str) -> None:
        self._rng = rng
        self._execution = {"execution_id": execution_id}
        self._second = rng.randrange(60)
        self._places = {task: self._place() for task in TASKS}

    def steps(self) -> Iterator[Step]:
        rng = self._rng
        if rng.random() < 0.5:
            yield self._step("execution_requested", run_key="key", trigger_type="MANUAL")
        if rng.random() < 0.5:
            tasks = [{"task_id": task, **self._places[task]} for task in TASKS]
            yield self._step("execution_planned", plan_id="plan", tasks=tasks)
        yield self._step("execution_started", pipeline_id=rng.choice(("daily", "hourly")))
        for task in rng.sample(TASKS, rng.randint(1, len(TASKS))):
            yield from self._task(task)
        if rng.random() < 0.3:
            yield self._step("cancel_requested", reason="enough")
        if rng.random() < 0.7:
            status = rng.choice(("SUCCESS", "FAILED", "CANCELLED"))
            yield self._step("execution_completed", status=status, duration_ms=rng.randrange(9))

    def _task(self, task: str) -> Iterator[Step]:
        rng = self._rng
        attempts = rng.randint(1, 3)
        for attempt in range(1, attempts + 1):
            named = {"task_id": task, "attempt": attempt, **self._places[task]}
            if rng.random() < 0.4:
                yield self._step("task_dispatched", **named)
            yield self._step("task_started", **named, worker=f"w{attempt}")
            if rng.random() < 0.2:
                yield self._step("task_cancelled", **named, reason="stop")
            if attempt < attempts:
                yield from self._failure(named)
            elif rng.random() < 0.8:
                yield from self._success(named)

    def _failure(self, named: dict[str, Any]) -> Iterator[Step]:
        if self._rng.random() < 0.5:
            yield self._step("task_lost", **named, reason="lease_expired")
        else:
            yield self._step("task_completed", **named, status="FAILED", error_message="no")
        if self._rng.random() < 0.5:
            next_attempt = {**named, "attempt": named["attempt"] + 1}
            yield self._step("task_retry_scheduled", **next_attempt, reason="try again")

    def _success(self, named: dict[str, Any]) -> Iterator[Step]:
        rng = self._rng
        version = {"published_version": rng.randrange(3)} if rng.random() < 0.5 else {}
        figures = {"rows_written": rng.randrange(9), "output_tables": ["tbl-a"]}
        yield self._step("task_completed", **named, **version, **figures, status="SUCCESS")
        if "table_id" in named:
            place = {name: named[name] for name in named if name.startswith(("table", "partition"))}
            figures = {"row_count": rng.randrange(9), "version": rng.randrange(3)}
            yield self._step("partition_completed", **place, **figures)

    def _place(self) -> dict[str, Any]:
        rng = self._rng
        named: dict[str, Any] = {"table_id": rng.choice(TABLES)}
        draw = rng.random()
        if draw < 0.5:
            return named | {"partition_values": rng.choice(VALUES)}
        return named | {"partition_key": rng.choice(KEYS)} if draw < 0.8 else {}

    def _step(self, name: str, **payload: Any) -> Step:
        self._second += self._rng.randrange(4)  # often at the same moment as what was before
        return Step(name, {**self._execution, **payload}, self._second)


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
    """A line, and its envelope; None if it cannot be folded."""

    line: bytes
    envelope: dict[str, Any] | None


@dataclass(frozen=True)
class History:
    """The events of one domain, and the retention bounds of its tables."""

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
            steps += ExecutionStory(rng, execution_id).steps()
    kinds = _kinds(domain)
    for _ in range(rng.randint(3, 15)):
        kind = rng.choice(kinds)
        payload = payload_of(rng, kind.type.payload)
        steps.append(Step(kind.name, payload, rng.randrange(90)))
    return steps


@cache
def _kinds(domain: str) -> list[EventKind]:
    kinds = [kind for kind in KINDS if kind.domain in (domain, ANY_DOMAIN)]
    return sorted(kinds, key=lambda kind: (kind.name, kind.version))


class _Maker:
    """Makes lines of steps."""

    def __init__(self, rng: Random, domain: str) -> None:
        self._rng = rng
        self._domain = domain
        self._count = 0

    def events(self, step: Step) -> list[Event]:
        """The line of a step, and sometimes more: a retry, a shared id, another payload or type."""
        rng = self._rng
        occurred = step.second + rng.choice((0, 0, 0, 0.25, -86_400, 7_200))  # a clock may be wrong
        envelopes = [self._envelope(step, occurred)]
        if rng.random() < 0.1:
            envelopes.append(
                {**envelopes[0], "event_id": self._id(), "received_at": _time(step.second + 300)}
            )
        if rng.random() < 0.1:  # an id that others have too
            envelopes.append({**self._envelope(step, occurred + 1), "event_id": _SHARED})
        if rng.random() < 0.1:  # under one id something else
            more = payload_of(rng, find_kind(step.name, 1).type.payload)
            envelopes.append({**envelopes[0], "payload": {**more, **step.payload}})
        if rng.random() < 0.1:
            envelopes.append({**envelopes[0], "event_type": rng.choice(_kinds(self._domain)).name})
        return [_event(each) for each in envelopes]

    def broken(self) -> Event:
        """A line that cannot be folded, for one of many reasons."""
        rng, domain = self._rng, self._domain
        if rng.random() < 0.4:
            return Event(rng.choice(_BROKEN), None)
        stranger = rng.choice([kind for kind in KINDS if kind.domain not in (domain, ANY_DOMAIN)])
        envelope = self._envelope(Step(stranger.name, stranger.example, rng.randrange(60)), 0)
        spoiled = rng.choice(
            (
                envelope,
                {**envelope, "event_version": 99},
                {**envelope, "payload": 7},
                {**envelope, "payload": {**stranger.example, "no_such_field": 1}},
                {**envelope, "received_at": "yesterday"},
            )
        )
        return Event(_line(spoiled), None)

    def _envelope(self, step: Step, occurred: float) -> dict[str, Any]:
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


def _event(envelope: dict[str, Any]) -> Event:
    """An event of a kind that belongs here; by chance its payload may still be one that is refused."""
    line = _line(envelope)
    try:
        find_kind(envelope["event_type"], 1).type.read(json.dumps(envelope["payload"]).encode())
    except Invalid:
        return Event(line, None)
    return Event(line, envelope)


def _line(envelope: dict[str, Any]) -> bytes:
    return json.dumps(envelope, ensure_ascii=False).encode()
