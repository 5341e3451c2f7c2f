"""Queues of attempts of this process that want to commit to the same table, first come, first served.

Attempts of one process that commit to one table at the same time would only make each other's commits fail.
Correctness does not depend on these queues: between processes the catalog decides, and a commit that has
lost is retried.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, get_ident

_CHECK_S = 0.5  # how soon a stopped attempt leaves the queue


def pause(seconds: float) -> None:
    """Block this thread, as after a commit that lost against another process."""
    Event().wait(seconds)


class CommitQueues:
    """One queue for each table that an attempt of this process is changing."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._queues: dict[str, deque[Event]] = {}
        self._owners: dict[str, int] = {}

    @contextmanager
    def hold(
        self, table: str, raise_if_stopped: Callable[[], None] = lambda: None
    ) -> Iterator[None]:
        """Wait for the table and hold it until the block ends; the thread that holds it may hold it again.

        `raise_if_stopped` is called while this waits. What it raises ends the wait.
        """
        if self._owners.get(table) == get_ident():
            yield
            return
        turn = Event()
        with self._lock:
            queue = self._queues.setdefault(table, deque())
            queue.append(turn)
            if queue[0] is turn:
                turn.set()
        try:
            while not turn.wait(_CHECK_S):
                raise_if_stopped()
            self._owners[table] = get_ident()
            yield
        finally:
            self._leave(table, turn)

    def _leave(self, table: str, turn: Event) -> None:
        with self._lock:
            queue = self._queues[table]
            queue.remove(turn)
            if turn.is_set():
                self._owners.pop(table, None)
                if queue:
                    queue[0].set()
            if not queue:
                del self._queues[table]
