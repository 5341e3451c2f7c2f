"""The sender: a thread that takes batches from the buffer until each has its outcome.

A batch whose outcome is not known is sent again, byte by byte the same, with growing pauses, for as long as
the client is open: the ids in it make it count once. Batches are sent one after the other, so that what one
program tells arrives in its order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event as Flag
from threading import Lock, Thread

from arco.client.buffer import Buffer
from arco.client.event import Line
from arco.client.post import Answer, Later, Post, Settled, TooMuch
from arco.client.report import Refused, Report, Tally
from arco.core.rng import Rng

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 10.0
_LONGEST_ASKED_S = 60.0  # that a server may ask us to wait


@dataclass(frozen=True)
class Batching:
    """How much goes into one request, and how long it is waited for."""

    most_events: int
    most_bytes: int
    linger_s: float


class Sender:
    """Sends what is in a buffer."""

    def __init__(
        self,
        buffer: Buffer,
        post: Post,
        batching: Batching,
        rng: Rng,
        on_refused: Callable[[Refused], None] | None,
    ) -> None:
        self._buffer = buffer
        self._post = post
        self._batching = batching
        self._rng = rng
        self._on_refused = on_refused
        self._tally = Tally()
        self._lock = Lock()  # of the tally
        self._stop = Flag()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Begin to send, if it has not begun."""
        with self._lock:
            if self._thread is None:
                self._thread = Thread(target=self._run, name="arco-events", daemon=True)
                self._thread.start()

    def dropped(self, count: int) -> None:
        """So many did not get into the buffer."""
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
            self._post.close()

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

    def _deliver(self, batch: Sequence[Line]) -> None:
        """Send a batch until it has its outcome, in halves if it is too much at once."""
        answer = self._insist(batch)
        if isinstance(answer, TooMuch) and len(batch) > 1:
            half = len(batch) // 2
            self._deliver(batch[:half])
            self._deliver(batch[half:])
        elif isinstance(answer, TooMuch):
            self._settle(batch, {0: answer.reason})
        elif isinstance(answer, Settled):
            self._settle(batch, answer.refused)

    def _insist(self, batch: Sequence[Line]) -> Answer:
        """The outcome of a batch; `Later` only if there is no time left to wait for it."""
        pause_s = _FIRST_PAUSE_S
        answer: Answer = Later("it was stopped before this was sent")
        while not self._stop.is_set():
            answer = self._post.send(batch)
            if not isinstance(answer, Later):
                return answer
            with self._lock:
                self._tally.problem = answer.problem
            asked_s = min(answer.after_s, _LONGEST_ASKED_S)
            self._stop.wait(max(asked_s, pause_s * (0.5 + self._rng.random() / 2)))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        return answer

    def _settle(self, batch: Sequence[Line], reasons: dict[int, str]) -> None:
        refused = [Refused(batch[place].event_id, reason) for place, reason in reasons.items()]
        with self._lock:
            self._tally.acknowledged += len(batch) - len(refused)
            self._tally.refused += len(refused)
            self._tally.refusals.extend(refused)
            self._tally.problem = None
        self._buffer.settle(len(batch))
        for each in refused:
            self._tell(each)

    def _tell(self, refused: Refused) -> None:
        if self._on_refused is None:
            return
        try:
            self._on_refused(refused)
        except Exception as problem:
            # The caller's own mistake must not end the sending; the report still has the refusal.
            with self._lock:
                self._tally.problem = f"on_refused has failed: {problem!r}"
