"""What an attempt says while it works: its lines and how far it is, until the book of runs has them.

Executors speak from threads of their own, and the worker listens on its loop. Lines are sent in numbered
parts. A part stays as it is until it was heard, so that one that is sent again is known by its number.
"""

from collections import deque
from threading import Lock
from typing import NamedTuple

import msgspec

from arco.flow.run.wire import Progress
from arco.flow.work.plain import plain_text

MOST_PENDING_CHARS = 1_000_000
MOST_SENT_CHARS = 256_000  # of one part; the rest goes with the next


class Part(NamedTuple):
    """Lines that are sent together; without a number there are none."""

    number: int | None = None
    text: str = ""


class Said:
    """The `Watch` of one attempt. What has been said and not been sent is bounded, and the rest counted."""

    def __init__(self) -> None:
        self.latest = Progress()
        self._lock = Lock()
        self._lines: deque[str] = deque()
        self._pending_chars = 0
        self._left_out = 0
        self._next_part = 0
        self._unheard = Part()
        self._stopped = False

    def log(self, line: str) -> None:
        plain = plain_text(line)
        text = plain if plain.endswith("\n") else f"{plain}\n"
        with self._lock:
            if self._pending_chars + len(text) > MOST_PENDING_CHARS:
                self._left_out += 1
                return
            self._pending_chars += len(text)
            self._lines.append(text)

    def progress(self, progress: Progress) -> None:
        self.latest = msgspec.structs.replace(progress, message=plain_text(progress.message))

    def is_stopped(self) -> bool:
        return self._stopped

    def stop(self) -> None:
        """Tell the executor to begin nothing more."""
        self._stopped = True

    @property
    def fills_a_part(self) -> bool:
        """Whether what is said next does not go with the next part."""
        with self._lock:
            return self._unheard.number is not None or self._pending_chars >= MOST_SENT_CHARS

    def take(self, most_chars: int = MOST_SENT_CHARS) -> Part:
        """The part to be sent, lines in their order; the same again until it is `heard`."""
        with self._lock:
            if self._unheard.number is None and (text := self._taken(most_chars)):
                self._unheard = Part(self._next_part, text)
                self._next_part += 1
            return self._unheard

    def heard(self, part: Part) -> None:
        """The book of runs has a part."""
        with self._lock:
            if part.number == self._unheard.number:
                self._unheard = Part()

    def refused(self, part: Part, why: str) -> None:
        """Nobody takes what was said: a line in the place of the part tells of it."""
        self.latest = Progress()
        with self._lock:
            if part.number is not None and part.number == self._unheard.number:
                text = f"... {len(part.text)} characters were left out: {plain_text(why)}\n"
                self._unheard = Part(part.number, text)

    def _taken(self, most_chars: int) -> str:
        taken: list[str] = []
        chars = 0
        while self._lines and chars < most_chars:
            taken.append(self._lines.popleft())
            chars += len(taken[-1])
        self._pending_chars -= chars
        if self._left_out and not self._lines:
            taken.append(f"... {self._left_out} lines were left out: too many at once\n")
            self._left_out = 0
        return "".join(taken)
