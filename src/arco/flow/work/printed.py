"""What the code of tasks prints: it is kept with the log of its attempt, and stdout is the command's own.

Which attempt a piece of code works for, its context says. A thread that it starts by itself has none, so
that what such a thread prints goes to stderr.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock, get_ident
from typing import Protocol, TextIO, cast

_LONGEST = 10_000  # characters of a line that does not end


class _Pen(Protocol):
    def write(self, text: str, /) -> int: ...

    def flush(self) -> None: ...

    def isatty(self) -> bool: ...


class _Lines:
    """What one attempt prints, line by line; its threads may print at once."""

    def __init__(self, keep: Callable[[str], None]) -> None:
        self._keep = keep
        self._lock = Lock()
        self._begun = ""  # a line that is not at its end

    def write(self, text: str, /) -> int:
        with self._lock:
            *lines, self._begun = (self._begun + text).split("\n")
            if len(self._begun) > _LONGEST:
                lines.append(self._begun)
                self._begun = ""
            for line in lines:
                self._keep(line)
        return len(text)

    def flush(self) -> None:
        """A line is kept once it is at its end."""

    def isatty(self) -> bool:
        return False

    def close(self) -> None:
        if self._begun:
            self.write("\n")


_prints: ContextVar[_Lines | None] = ContextVar("arco_prints", default=None)


class _Stdout:
    """A stdout that asks for whom its caller works; all but writing is left to the one that was there."""

    def __init__(self, own: TextIO) -> None:
        self.own = own
        self._thread = get_ident()

    def write(self, text: str) -> int:
        return self._pen().write(text)

    def writelines(self, lines: list[str]) -> None:
        self.write("".join(lines))

    def flush(self) -> None:
        self._pen().flush()

    def isatty(self) -> bool:
        return self._pen().isatty()

    def __getattr__(self, name: str) -> object:
        return getattr(self.own, name)

    def _pen(self) -> _Pen:
        if (lines := _prints.get()) is not None:
            return lines
        return self.own if get_ident() == self._thread else sys.stderr


@contextmanager
def own_stdout() -> Iterator[TextIO]:
    """A block in which stdout is what this thread alone writes to; given is what all of ours may."""
    own = sys.stdout
    sys.stdout = cast("TextIO", _Stdout(own))
    try:
        yield own
    finally:
        sys.stdout = own


def stdout_of_ours() -> TextIO:
    """What those of our threads write to that a block of `own_stdout` does not know."""
    return sys.stdout.own if isinstance(sys.stdout, _Stdout) else sys.stdout


@contextmanager
def prints_kept(keep: Callable[[str], None]) -> Iterator[None]:
    """A block whose code prints for an attempt, if stdout is one's own."""
    lines = _Lines(keep)
    before = _prints.set(lines)
    try:
        yield
    finally:
        _prints.reset(before)
        lines.close()
