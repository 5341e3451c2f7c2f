"""The end of a stop: a server whose store is gone ends all the same.

A clean stop finishes requests and gives leases back, and each of these waits for the store. If the store
answers nothing for some seconds after the signal, the process ends as it is: whatever it holds runs out by
itself, as after a kill.
"""

import atexit
import os
import signal

from arco.api.http.telemetry import Log
from arco.api.metrics import Metrics
from arco.core.clock import Clock

SILENCE_MS = 8_000
_LOOK_S = 0.5
_EXIT_CODE = 1


class StopDeadline:
    """Ends the process once a stop was asked for and the store leaves its requests unanswered."""

    def __init__(
        self, clock: Clock, log: Log, metrics: Metrics, silence_ms: float = SILENCE_MS
    ) -> None:
        self._clock = clock
        self._log = log
        self._metrics = metrics
        self._silence_ms = silence_ms
        self._since_ms = 0.0  # when it was last known to answer, or not asked
        self._answers = 0  # by then
        self._failures = 0

    def begin(self) -> None:
        """A stop was asked for. The system's timer also fires while the event loop waits for a thread."""
        self._mark()
        signal.signal(signal.SIGALRM, lambda _signal, _frame: self._look())
        signal.setitimer(signal.ITIMER_REAL, _LOOK_S, _LOOK_S)
        # Python removes handlers while it exits, and without one the signal would kill the process.
        atexit.register(signal.setitimer, signal.ITIMER_REAL, 0)

    def _mark(self) -> None:
        self._since_ms = self._clock.elapsed_ms()
        self._answers, self._failures = self._metrics.store_answers, self._metrics.store_failures

    def _look(self) -> None:
        metrics = self._metrics
        is_asked = metrics.store_pending.count > 0 or metrics.store_failures > self._failures
        if metrics.store_answers > self._answers or not is_asked:
            self._mark()
        elif self._clock.elapsed_ms() - self._since_ms >= self._silence_ms:
            try:
                self._log.warning("stopped without the store, which does not answer")
            finally:
                os._exit(_EXIT_CODE)
