"""Senders of events that know nothing of Arco but its address: plain HTTP, from threads.

Each has its own way to be sure. One gives every event a key of its own, one gives a batch one key, and both
repeat what was not acknowledged until it is, at whatever api; sometimes they repeat what was. The third
gives no keys and sends everything once: what became of a batch that failed it does not know.
"""

import gzip
import http.client
import json
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tests.processes.numbered_events import KINDS, event

_APART = KINDS * 10_000_000  # numbers of one sender
_SIZES = (1, 7, 40, 150)
_WINDOW = 6  # batches that wait for their acknowledgement
_PATIENCE_S = 180.0  # until all is acknowledged, once the last was made


class Way(StrEnum):
    """How a sender makes sure that nothing is stored twice."""

    OWN_KEYS = "own keys"
    BATCH_KEY = "a key a batch"
    ONCE = "once"


@dataclass
class SendReport:
    """The answers that senders got."""

    done: set[int] = field(default_factory=set)  # acknowledged
    unknown: set[int] = field(default_factory=set)  # sent, and not answered
    acks: list[tuple[float, float]] = field(default_factory=list)  # when sent, when answered
    failures: int = 0  # tries without an acknowledgement
    repeats: int = 0  # batches that were sent again though they were acknowledged
    wrong: list[str] = field(default_factory=list)

    def add(self, other: "SendReport") -> None:
        self.done |= other.done
        self.unknown |= other.unknown
        self.acks += other.acks
        self.failures += other.failures
        self.repeats += other.repeats
        self.wrong += other.wrong


@dataclass(frozen=True)
class Batch:
    """Events that go together, as the very bytes that are sent each time."""

    numbers: range
    body: bytes
    headers: dict[str, str]


class Sender(threading.Thread):
    """Sends batches to any of the apis until it is stopped, and then until all is acknowledged."""

    def __init__(
        self, number: int, way: Way, apis: Sequence[int], *, pause_s: float, seed: int
    ) -> None:
        super().__init__(name=f"sender-{number}", daemon=True)
        self.report = SendReport()
        self._way = way
        self._ports = list(apis)
        self._pause_s = pause_s
        self._rng = random.Random(seed)
        self._next = (number + 1) * _APART
        self._connections: dict[int, http.client.HTTPConnection] = {}
        self._ending = threading.Event()

    def stop(self) -> None:
        """Make no more events."""
        self._ending.set()

    def run(self) -> None:
        waiting: list[Batch] = []
        while not self._ending.is_set():
            if len(waiting) < _WINDOW:
                waiting.append(self._batch())
            self._try_one(waiting)
            time.sleep(self._rng.uniform(0, self._pause_s))
        until_s = time.monotonic() + _PATIENCE_S
        while waiting and time.monotonic() < until_s:
            self._try_one(waiting)
        if waiting:
            self.report.wrong.append(f"{self.name}: {len(waiting)} batches are never acknowledged")
        for connection in self._connections.values():
            connection.close()

    def _batch(self) -> Batch:
        numbers = range(self._next, self._next + self._rng.choice(_SIZES))
        self._next = numbers.stop
        has_keys = self._way is Way.OWN_KEYS
        events = [event(each, f"fact-{each}" if has_keys else None) for each in numbers]
        headers = {}
        if self._way is Way.BATCH_KEY:
            headers["idempotency-key"] = f"{self.name}-{numbers.start}"
        if self._rng.random() < 0.5:
            headers["content-type"] = "application/x-ndjson"
            body = "\n".join(map(json.dumps, events)).encode()
        else:
            headers["content-type"] = "application/json"
            body = json.dumps(events).encode()
        if self._rng.random() < 0.2:
            headers["content-encoding"] = "gzip"
            body = gzip.compress(body)
        return Batch(numbers, body, headers)

    def _try_one(self, waiting: list[Batch]) -> None:
        """Send one of those that wait: not the oldest, so that facts come in any order."""
        batch = self._rng.choice(waiting)
        sent_s = time.monotonic()
        if self._post(batch):
            self.report.done.update(batch.numbers)
            self.report.acks.append((sent_s, time.monotonic()))
            waiting.remove(batch)
            if self._way is not Way.ONCE and self._rng.random() < 0.05:
                self.report.repeats += self._post(batch)
            return
        self.report.failures += 1
        if self._way is Way.ONCE:
            self.report.unknown.update(batch.numbers)
            waiting.remove(batch)
        time.sleep(self._rng.uniform(0.02, 0.2))

    def _post(self, batch: Batch) -> bool:
        """Whether a batch was acknowledged; now and then nobody waits for the answer."""
        port = self._rng.choice(self._ports)
        patience_s = 0.02 if self._rng.random() < 0.03 else 20.0
        connection = self._connections.get(port)
        try:
            if connection is None:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=patience_s)
                connection.connect()
                self._connections[port] = connection
            connection.sock.settimeout(patience_s)
            connection.request("POST", "/api/v1/events", batch.body, batch.headers)
            answer = connection.getresponse()
            return self._judge(batch, answer.status, answer.read())
        except (OSError, http.client.HTTPException):
            if connection is not None:
                connection.close()
            self._connections.pop(port, None)
            return False

    def _judge(self, batch: Batch, status: int, body: bytes) -> bool:
        if status == 200:
            answer = json.loads(body)
            stored = answer["accepted"] + len(answer["duplicates"])
            if answer["refused"] or stored != len(batch.numbers):
                self.report.wrong.append(f"{batch.numbers}: {body[:300]!r}")
            return True
        if status not in {409, 425, 429, 503}:  # come again
            self.report.wrong.append(f"{batch.numbers}: {status} {body[:300]!r}")
        return False


def send(apis: Sequence[int], *, pause_s: float, seed: int) -> list[Sender]:
    """A sender of each way, begun; between two batches each rests up to so long."""
    senders = [
        Sender(each, way, apis, pause_s=pause_s, seed=seed + each) for each, way in enumerate(Way)
    ]
    for sender in senders:
        sender.start()
    return senders


def stop_senders(senders: Sequence[Sender]) -> SendReport:
    """End the senders; the answers that all of them got."""
    for sender in senders:
        sender.stop()
    total = SendReport()
    for sender in senders:
        sender.join()
        total.add(sender.report)
    return total
