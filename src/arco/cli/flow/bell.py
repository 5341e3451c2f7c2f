"""Signals while something runs: the first one asks for an end, the second one is obeyed at once."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

from arco.core.runtime import Runtime
from arco.core.tasks import Event

INTERRUPTED = 130

_TICK_MS = 100
_SHOW_CURSOR = "\x1b[?25h\n"  # a screen that is drawn anew again and again hides it
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Bell:
    """How often somebody has asked for an end."""

    def __init__(self) -> None:
        self.rung = 0

    def hear(self, _number: int, _frame: FrameType | None) -> None:
        """A signal came; a second one does not wait for anything."""
        self.rung += 1
        if self.rung > 1:
            leave_at_once()

    async def wait(self, runtime: Runtime, news: Event) -> None:
        """Set `news` once it was rung: a signal by itself wakes nobody who waits on a loop."""
        while not self.rung:
            await runtime.clock.sleep(_TICK_MS)
        news.set()


def leave_at_once() -> NoReturn:
    """End the process, whatever it is at: what is durable stays, and Spark ends with whoever started it."""
    with suppress(Exception):
        if sys.stdout.isatty():
            sys.stdout.write(_SHOW_CURSOR)
        sys.stdout.flush()
    os._exit(INTERRUPTED)


@contextmanager
def listening() -> Iterator[Bell]:
    """For this time, signals ring a bell; in a thread, where there are none, it stays silent."""
    bell = Bell()
    before = []
    with suppress(ValueError):
        before = [(each, signal.signal(each, bell.hear)) for each in _SIGNALS]
    try:
        yield bell
    finally:
        for number, handler in before:
            signal.signal(number, handler)
