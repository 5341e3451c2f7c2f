"""Whose turn it is to execute a module, where several threads import it at the same time.

One thread has the turn, and the others wait until it is over. Threads that would wait for each other do
not, as modules that import each other would hold them up for ever: one of them goes on without a turn and
takes the module as far as it has come, as it is with Python's own imports.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, get_ident


class Turns:
    """The turns of one project."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._holders: dict[str, int] = {}  # by module, the thread that has its turn
        self._waiting: dict[int, str] = {}  # by thread, the module that it waits for

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """The turn of a module, at once for the thread that has it already."""
        with self._changed:
            is_taken = self._take(name)
        try:
            yield
        finally:
            if is_taken:
                with self._changed:
                    del self._holders[name]
                    self._changed.notify_all()

    def _take(self, name: str) -> bool:
        """Wait for the turn; false if this thread has it already, or waiting for it would never end."""
        me = get_ident()
        self._waiting[me] = name
        try:
            while name in self._holders:
                if self._ends_at(me):
                    return False
                self._changed.wait()
        finally:
            del self._waiting[me]
        self._holders[name] = me
        return True

    def _ends_at(self, me: int) -> bool:
        """Whether whoever this thread waits for, perhaps by others in between, is this thread itself."""
        thread: int | None = me
        while thread is not None:
            thread = self._holders.get(self._waiting.get(thread, ""))
            if thread == me:
                return True
        return False
