"""What the API knows of whoever compacts events: it asks for nothing but how that one is."""

from dataclasses import dataclass
from typing import Literal, Protocol

# running: Spark is up. waiting: there is nothing to do, so it is not. starting: it is on its way.
# restarting: it has ended unasked. off: nobody compacts. elsewhere: another process does, if any.
State = Literal["running", "waiting", "starting", "restarting", "off", "elsewhere"]


class Compaction(Protocol):
    """Whoever compacts events, as this process sees it."""

    @property
    def state(self) -> State:
        """How it is."""

    @property
    def reason(self) -> str | None:
        """Why it is like that, in a sentence for everybody; None if there is nothing to explain."""


@dataclass(frozen=True)
class Fixed:
    """A state that never changes."""

    state: State
    reason: str | None = None


ELSEWHERE: Compaction = Fixed("elsewhere")
