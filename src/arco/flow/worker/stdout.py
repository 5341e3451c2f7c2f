"""Captures what the code of tasks prints: into the log of its attempt, since stdout belongs to the command.

A context variable says which attempt a piece of code runs for. A thread that user code starts has none,
so its output goes to stderr.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock, get_ident
from typing import Protocol, TextIO, cast

_MAX_LINE_CHARS = 10_000  # a longer line is split


class _Stream(Protocol):
    def write(self, text: str, /) -> int: ...

    def flush(self) -> None: ...

    def isatty(self) -> bool: ...


class _LineLogger:
    """Logs what one attempt prints, line by line; its threads may print concurrently."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log
        self._lock = Lock()
        self._partial = ""

    def write(self, text: str, /) -> int:
        with self._lock:
            *lines, self._partial = (self._partial + text).split("\n")
            if len(self._partial) > _MAX_LINE_CHARS:
                lines.append(self._partial)
                self._partial = ""
            for line in lines:
                self._log(line)
        return len(text)

    def flush(self) -> None:
        """Does nothing: a line is logged at its end."""

    def isatty(self) -> bool:
        return False

    def close(self) -> None:
        if self._partial:
            self.write("\n")


_attempt_output: ContextVar[_LineLogger | None] = ContextVar("arco_prints", default=None)


class _Stdout:
    """A stdout that writes to the attempt of its caller; everything else is left to the original."""

    def __init__(self, original: TextIO) -> None:
        self.original = original
        self._thread = get_ident()

    def write(self, text: str) -> int:
        return self._stream().write(text)

    def writelines(self, lines: list[str]) -> None:
        self.write("".join(lines))

    def flush(self) -> None:
        self._stream().flush()

    def isatty(self) -> bool:
        return self._stream().isatty()

    def __getattr__(self, name: str) -> object:
        return getattr(self.original, name)

    def _stream(self) -> _Stream:
        if (output := _attempt_output.get()) is not None:
            return output
        return self.original if get_ident() == self._thread else sys.stderr


@contextmanager
def capture_stdout() -> Iterator[TextIO]:
    """Reserve stdout for this thread within the block; yields the original, for threads of Arco."""
    original = sys.stdout
    sys.stdout = cast("TextIO", _Stdout(original))
    try:
        yield original
    finally:
        sys.stdout = original


def process_stdout() -> TextIO:
    """The original stdout, for threads of Arco inside a block of `capture_stdout`."""
    return sys.stdout.original if isinstance(sys.stdout, _Stdout) else sys.stdout


@contextmanager
def log_prints(log: Callable[[str], None]) -> Iterator[None]:
    """Send what the code of the block prints to the log of an attempt, inside `capture_stdout`."""
    output = _LineLogger(log)
    token = _attempt_output.set(output)
    try:
        yield
    finally:
        _attempt_output.reset(token)
        output.close()
