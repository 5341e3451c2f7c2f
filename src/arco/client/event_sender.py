"""Sending events in the background: a bounded buffer, and a thread that sends batches from it.

A batch whose outcome is not known is sent again, byte for byte the same, with growing pauses, while the
client is open: the ids in it make it count once. Batches are sent one after the other, so the events of one
program arrive in order.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from threading import Condition, Lock, Thread
from threading import Event as Flag

import httpx2
import msgspec

from arco.client.event import DeliveryTally, EncodedEvent, Refused, Report
from arco.client.transport import HttpRetryPolicy, Token, bearer, retry_after_ms
from arco.core import json
from arco.core.errors import Invalid
from arco.core.runtime import Rng

PATH = "/api/v1/events"

_RETRY = HttpRetryPolicy(first_pause_ms=100)
_MAX_ASKED_MS = 60_000  # that a server may ask to wait
_MAX_DETAIL = 300


class EventBuffer:
    """Lines in the order of the calls. A line that is being sent still counts, so that it cannot grow."""

    def __init__(self, *, most_events: int, most_bytes: int) -> None:
        self._most_events = most_events
        self._most_bytes = most_bytes
        self._lines: deque[EncodedEvent] = deque()  # the first of them may be under way
        self._bytes = 0
        self._added = 0
        self._settled = 0
        self._flushed = 0  # up to this line a batch is sent without waiting for more
        self._closed = False
        self._changed = Condition()

    @property
    def pending(self) -> int:
        """How many lines have no outcome yet."""
        with self._changed:
            return len(self._lines)

    def put(self, lines: Sequence[EncodedEvent], wait_s: float) -> bool:
        """Add all lines, or none if there is no space for all of them within `wait_s`."""
        size = sum(len(line.body) for line in lines)
        if len(lines) > self._most_events or size > self._most_bytes:
            raise Invalid(
                f"the buffer holds {self._most_events} events and {self._most_bytes} bytes; "
                "send fewer at once"
            )

        def has_space() -> bool:
            events, total_bytes = len(self._lines) + len(lines), self._bytes + size
            return self._closed or (events <= self._most_events and total_bytes <= self._most_bytes)

        with self._changed:
            if not self._changed.wait_for(has_space, wait_s):
                return False
            if self._closed:
                raise Invalid("this client is closed")
            self._lines.extend(lines)
            self._bytes += size
            self._added += len(lines)
            self._changed.notify_all()
            return True

    def next_batch(
        self, *, most_events: int, most_bytes: int, linger_s: float
    ) -> list[EncodedEvent]:
        """The first lines that are not settled, as soon as there are any; none once it is closed.

        It waits `linger_s` for more, unless there are enough or a caller waits for these.
        """

        def is_enough() -> bool:
            return (
                self._closed
                or self._flushed > self._settled
                or len(self._lines) >= most_events
                or self._bytes >= most_bytes
            )

        with self._changed:
            self._changed.wait_for(lambda: self._lines or self._closed)
            self._changed.wait_for(is_enough, linger_s)
            batch: list[EncodedEvent] = []
            size = 0
            for line in islice(self._lines, most_events):
                size += len(line.body)
                if batch and size > most_bytes:
                    break
                batch.append(line)
            return batch

    def settle(self, count: int) -> None:
        """Remove the first `count` lines, which have their outcome."""
        with self._changed:
            for _ in range(count):
                self._bytes -= len(self._lines.popleft().body)
            self._settled += count
            self._changed.notify_all()

    def wait_settled(self, wait_s: float | None) -> bool:
        """Whether all lines that were added until now have their outcome within `wait_s`."""
        with self._changed:
            added = self._added
            self._flushed = added
            self._changed.notify_all()
            return self._changed.wait_for(lambda: self._settled >= added, wait_s)

    def close(self) -> None:
        """Take no more lines, and wake all waiters."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


@dataclass(frozen=True)
class Batching:
    """How much goes into one request, and how long to wait for more."""

    most_events: int
    most_bytes: int
    linger_s: float


@dataclass(frozen=True)
class _Settled:
    """Every line has its outcome; those refused by their index in the batch."""

    refused: dict[int, str]


@dataclass(frozen=True)
class _TooLarge:
    """The server does not read this batch; it may read a smaller one."""

    reason: str


@dataclass(frozen=True)
class _Retry:
    """No answer, or one that may change later. It is not known whether the events are stored."""

    problem: str
    asked_ms: int | None = None


_Outcome = _Settled | _TooLarge | _Retry


class EventSender:
    """Sends what is in a buffer, on a thread."""

    def __init__(
        self,
        buffer: EventBuffer,
        http: httpx2.Client,
        *,
        token: Token | None,
        batching: Batching,
        rng: Rng,
        on_refused: Callable[[Refused], None] | None,
    ) -> None:
        self._buffer = buffer
        self._http = http
        self._token = token
        self._batching = batching
        self._rng = rng
        self._on_refused = on_refused
        self._tally = DeliveryTally()
        self._lock = Lock()  # of the tally
        self._stop = Flag()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Start the thread, if it does not run."""
        with self._lock:
            if self._thread is None:
                self._thread = Thread(target=self._run, name="arco-events", daemon=True)
                self._thread.start()

    def count_dropped(self, count: int) -> None:
        """Count events that did not get into the buffer."""
        with self._lock:
            self._tally.dropped += count

    def report(self) -> Report:
        """The figures of this moment."""
        pending = self._buffer.pending
        with self._lock:
            return self._tally.report(pending)

    def stop(self, wait_s: float) -> None:
        """Send no more after the request that is under way."""
        self._stop.set()
        self._buffer.close()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join(wait_s)
        if thread is None or not thread.is_alive():
            self._http.close()

    def _run(self) -> None:
        batching = self._batching
        while not self._stop.is_set():
            batch = self._buffer.next_batch(
                most_events=batching.most_events,
                most_bytes=batching.most_bytes,
                linger_s=batching.linger_s,
            )
            if not batch:
                return
            self._deliver(batch)

    def _deliver(self, batch: Sequence[EncodedEvent]) -> None:
        """Send a batch until it has its outcome, in halves if it is too large."""
        outcome = self._retry(batch)
        if isinstance(outcome, _TooLarge) and len(batch) > 1:
            half = len(batch) // 2
            self._deliver(batch[:half])
            self._deliver(batch[half:])
        elif isinstance(outcome, _TooLarge):
            self._settle(batch, {0: outcome.reason})
        elif isinstance(outcome, _Settled):
            self._settle(batch, outcome.refused)

    def _retry(self, batch: Sequence[EncodedEvent]) -> _Outcome:
        """The outcome of a batch; `_Retry` only if the client was closed before there is one."""
        outcome: _Outcome = _Retry("it was stopped before this was sent")
        attempt = 0
        while not self._stop.is_set():
            attempt += 1
            outcome = self._send(batch)
            if not isinstance(outcome, _Retry):
                return outcome
            with self._lock:
                self._tally.problem = outcome.problem
            asked_ms = min(outcome.asked_ms or 0, _MAX_ASKED_MS)
            pause_ms = max(asked_ms, _RETRY.pause_ms(attempt, None, self._rng))
            self._stop.wait(pause_ms / 1000)
        return outcome

    def _send(self, lines: Sequence[EncodedEvent]) -> _Outcome:
        content = b"\n".join(line.body for line in lines)
        try:
            headers = {"Content-Type": "application/x-ndjson", **bearer(self._token)}
            response = self._http.post(PATH, content=content, headers=headers)
            return _outcome(response, len(lines))
        except Invalid as problem:
            return _Retry(f"an answer that is not one of Arco's: {problem}"[:_MAX_DETAIL])
        except Exception as problem:
            # Of the network, or of the function that gives the token: neither may end the sending.
            return _Retry(f"{type(problem).__name__}: {problem}"[:_MAX_DETAIL])

    def _settle(self, batch: Sequence[EncodedEvent], reasons: dict[int, str]) -> None:
        refused = [Refused(batch[index].event_id, reason) for index, reason in reasons.items()]
        with self._lock:
            self._tally.acknowledged += len(batch) - len(refused)
            self._tally.refused += len(refused)
            self._tally.refusals.extend(refused)
            self._tally.problem = None
        self._buffer.settle(len(batch))
        for each in refused:
            self._notify(each)

    def _notify(self, refused: Refused) -> None:
        if self._on_refused is None:
            return
        try:
            self._on_refused(refused)
        except Exception as problem:
            # A mistake in the caller's function must not end the sending; the report has the refusal.
            with self._lock:
                self._tally.problem = f"on_refused has failed: {problem!r}"


# Responses


class _RefusedLine(msgspec.Struct):
    line: int
    reason: str


class _Appended(msgspec.Struct):
    accepted: int
    duplicates: list[msgspec.Raw]
    refused: list[_RefusedLine]


class _Problem(msgspec.Struct):
    code: str = ""
    detail: str = ""
    refused: list[_RefusedLine] = msgspec.field(default_factory=list)


def _outcome(response: httpx2.Response, count: int) -> _Outcome:
    if response.status_code == 200:
        appended = json.decode(response.content, _Appended)
        return _settled(appended.refused, count, appended.accepted + len(appended.duplicates))
    try:
        problem = json.decode(response.content, _Problem)
    except Invalid:
        problem = _Problem()  # a proxy has answered
    if response.status_code == 422 and problem.code == "events_refused":
        return _settled(problem.refused, count, 0)
    detail = f"{response.status_code} {problem.detail or response.reason_phrase}"[:_MAX_DETAIL]
    is_ours = bool(problem.code)
    if response.status_code == 413 or (response.status_code == 400 and is_ours):
        return _TooLarge(detail)  # of a batch of one, the event itself is refused
    return _Retry(detail, retry_after_ms(response))


def _settled(refused: list[_RefusedLine], count: int, stored: int) -> _Settled:
    reasons_by_index = {each.line - 1: each.reason for each in refused}
    if any(not 0 <= index < count for index in reasons_by_index):
        raise Invalid("it refuses a line that was not sent")
    if stored + len(reasons_by_index) != count:
        raise Invalid(
            f"it answers for {stored + len(reasons_by_index)} events, and {count} were sent"
        )
    return _Settled(reasons_by_index)
