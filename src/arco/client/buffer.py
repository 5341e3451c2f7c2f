"""The buffer between those who tell and the one who sends: bounded, and never a trap for its callers.

What is being sent still counts as held, so that a server that does not answer cannot make it grow.
"""

from collections import deque
from collections.abc import Sequence
from itertools import islice
from threading import Condition

from arco.client.event import Line
from arco.core.errors import Invalid


class Buffer:
    """Lines in the order they were told. All waiting is on one condition."""

    def __init__(self, *, most_events: int, most_bytes: int) -> None:
        self._most_events = most_events
        self._most_bytes = most_bytes
        self._held: deque[Line] = deque()  # the first of them may be under way
        self._held_bytes = 0
        self._told = 0
        self._settled = 0
        self._hurried = 0  # up to this one nobody waits for more to come
        self._closed = False
        self._changed = Condition()

    @property
    def pending(self) -> int:
        """How many have no outcome yet."""
        with self._changed:
            return len(self._held)

    def put(self, lines: Sequence[Line], wait_s: float) -> bool:
        """Take all of them, or none if there is no room for all within `wait_s`."""
        size = sum(len(line.body) for line in lines)
        if len(lines) > self._most_events or size > self._most_bytes:
            raise Invalid(
                f"the buffer holds {self._most_events} events and {self._most_bytes} bytes; "
                "tell fewer at once"
            )

        def has_room() -> bool:
            events, held_bytes = len(self._held) + len(lines), self._held_bytes + size
            return self._closed or (events <= self._most_events and held_bytes <= self._most_bytes)

        with self._changed:
            if not self._changed.wait_for(has_room, wait_s):
                return False
            if self._closed:
                raise Invalid("this client is closed")
            self._held.extend(lines)
            self._held_bytes += size
            self._told += len(lines)
            self._changed.notify_all()
            return True

    def next_batch(self, *, most_events: int, most_bytes: int, linger_s: float) -> list[Line]:
        """The first lines that are not settled, as soon as there are any; none once it is closed.

        More may come within `linger_s`, unless there are enough or somebody waits for what is here.
        """

        def is_enough() -> bool:
            return (
                self._closed
                or self._hurried > self._settled
                or len(self._held) >= most_events
                or self._held_bytes >= most_bytes
            )

        with self._changed:
            self._changed.wait_for(lambda: self._held or self._closed)
            self._changed.wait_for(is_enough, linger_s)
            batch: list[Line] = []
            size = 0
            for line in islice(self._held, most_events):
                size += len(line.body)
                if batch and size > most_bytes:
                    break
                batch.append(line)
            return batch

    def settle(self, count: int) -> None:
        """The first `count` have their outcome."""
        with self._changed:
            for _ in range(count):
                self._held_bytes -= len(self._held.popleft().body)
            self._settled += count
            self._changed.notify_all()

    def wait_settled(self, wait_s: float | None) -> bool:
        """Whether all that was told until now has its outcome within `wait_s`."""
        with self._changed:
            told = self._told
            self._hurried = told
            self._changed.notify_all()
            return self._changed.wait_for(lambda: self._settled >= told, wait_s)

    def close(self) -> None:
        """Take no more; whoever waits is let go."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
