"""What the API knows of whoever compacts events: it asks for nothing but how that one is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

# running: Spark is up. waiting: there is nothing to do, so it is not. starting: it is on its way.
# restarting: it has ended unasked. off: nobody compacts. elsewhere: another process does, if any.
State = Literal["running", "waiting", "starting", "restarting", "off", "elsewhere"]


@dataclass(frozen=True)
class CompactionFailure:
    """What has failed last, by the type of the error and its words as far as a log may hold them."""

    error: str
    detail: str = ""


class Compaction(Protocol):
    """Whoever compacts events, as this process sees it."""

    @property
    def state(self) -> State:
        """How it is."""

    @property
    def reason(self) -> str | None:
        """Why it is like that, in a sentence for everybody; None if there is nothing to explain."""

    @property
    def failures(self) -> Mapping[str, CompactionFailure]:
        """The last failure of each domain that has not published anything since."""


@dataclass(frozen=True)
class Fixed:
    """A state that never changes."""

    state: State
    reason: str | None = None
    failures: Mapping[str, CompactionFailure] = field(default_factory=dict)


@dataclass(frozen=True)
class RemoteReason:
    """Why a compactor in another process calls itself degraded."""

    code: str
    message: str
    domain: str | None = None


@dataclass(frozen=True)
class RemoteCompaction:
    """How a compactor in another process says that it is; a state of None was not told."""

    state: State | None = None
    reasons: tuple[RemoteReason, ...] = ()
    is_reachable: bool = True


ELSEWHERE: Compaction = Fixed("elsewhere")
