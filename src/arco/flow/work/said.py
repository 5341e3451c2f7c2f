"""What an attempt says while it works: its lines and how far it is, until the book of runs has them.

Executors speak from threads of their own, and the worker listens on its loop.
"""

from collections import deque
from threading import Lock

from arco.flow.run.wire import Progress

MOST_PENDING_CHARS = 1_000_000
MOST_SENT_CHARS = 256_000  # of one beat; the rest goes with the next


class Said:
    """The `Watch` of one attempt. What has been said and not been sent is bounded, and the rest counted."""

    def __init__(self) -> None:
        self.latest = Progress()
        self._lock = Lock()
        self._lines: deque[str] = deque()
        self._pending_chars = 0
        self._left_out = 0
        self._stopped = False

    def log(self, line: str) -> None:
        text = line if line.endswith("\n") else f"{line}\n"
        with self._lock:
            if self._pending_chars + len(text) > MOST_PENDING_CHARS:
                self._left_out += 1
                return
            self._pending_chars += len(text)
            self._lines.append(text)

    def progress(self, progress: Progress) -> None:
        self.latest = progress

    def is_stopped(self) -> bool:
        return self._stopped

    def stop(self) -> None:
        """Tell the executor to begin nothing more."""
        self._stopped = True

    def take(self, most_chars: int = MOST_SENT_CHARS) -> str:
        """Lines to be sent, in their order."""
        taken: list[str] = []
        chars = 0
        with self._lock:
            while self._lines and chars < most_chars:
                taken.append(self._lines.popleft())
                chars += len(taken[-1])
            self._pending_chars -= chars
            if self._left_out and not self._lines:
                taken.append(f"... {self._left_out} lines were left out: too many at once\n")
                self._left_out = 0
        return "".join(taken)

    def give_back(self, text: str) -> None:
        """Lines that could not be sent: they come first the next time."""
        if text:
            with self._lock:
                self._lines.appendleft(text)
                self._pending_chars += len(text)
