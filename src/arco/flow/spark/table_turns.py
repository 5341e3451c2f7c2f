"""Turns: which attempt of this process may change a table now, first come, first served.

Attempts of one process that commit to one table at the same time would only make each other's commits fail.
Nothing rests on a turn: between processes the catalog decides, and a commit that has lost is made again.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, get_ident

_LOOK_S = 0.5  # how soon an attempt that was stopped leaves the queue


def pause(seconds: float) -> None:
    """Let this thread wait, as after a commit that another process was faster than."""
    Event().wait(seconds)


class TableTurns:
    """The queues of all tables that an attempt of this process is changing."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._queues: dict[str, deque[Event]] = {}
        self._owners: dict[str, int] = {}

    @contextmanager
    def take(self, table: str, heed: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Wait for the turn, and have it until the block ends; the thread that has it may take it again.

        `heed` is called while this waits. What it raises ends the wait.
        """
        if self._owners.get(table) == get_ident():
            yield
            return
        mine = Event()
        with self._lock:
            queue = self._queues.setdefault(table, deque())
            queue.append(mine)
            if queue[0] is mine:
                mine.set()
        try:
            while not mine.wait(_LOOK_S):
                heed()
            self._owners[table] = get_ident()
            yield
        finally:
            self._leave(table, mine)

    def _leave(self, table: str, mine: Event) -> None:
        with self._lock:
            queue = self._queues[table]
            queue.remove(mine)
            if mine.is_set():
                self._owners.pop(table, None)
                if queue:
                    queue[0].set()
            if not queue:
                del self._queues[table]
