"""The pace of compaction: a publication costs a Spark job and some requests, however few events it carries.

So events wait a little for others to come with them. A fresh read shows them meanwhile.
"""

from dataclasses import dataclass

MANY_EVENTS = 1_000

_SHORTEST_MS = 1_000


@dataclass(frozen=True)
class Pace:
    """How long a domain rests from the begin of one cycle to the begin of the next.

    `longest_ms` while cycles carry few events, a second while they carry many, and not at all while
    a backlog is known to wait. 0: never.
    """

    longest_ms: float = 0

    def pause_ms(self, events: int, *, behind: bool) -> float:
        """The pause after a cycle that carried so many events."""
        if behind:
            return 0
        return min(_SHORTEST_MS, self.longest_ms) if events >= MANY_EVENTS else self.longest_ms
