"""What became of the events that were told, and the errors that say that some were not delivered."""

from collections import deque
from dataclasses import dataclass, field

from arco.core.errors import ArcoError, Unavailable

MOST_REFUSED = 1_000  # that are kept with their reasons; all of them are counted


@dataclass(frozen=True)
class Refused:
    """An event that the server will not take, and why; sending it again would not help."""

    event_id: str
    reason: str


@dataclass(frozen=True)
class Report:
    """Every event that was told is in one of these figures."""

    acknowledged: int  # durable
    refused: int
    dropped: int  # never sent, since the buffer was full
    pending: int  # not acknowledged yet; after `close` it is not known whether they are stored
    refusals: tuple[Refused, ...] = ()  # the last of those refused
    problem: str | None = None  # what keeps those pending from being delivered

    @property
    def is_complete(self) -> bool:
        """Whether everything that was told is durable."""
        return not (self.refused or self.dropped or self.pending)

    def __str__(self) -> str:
        figures = (
            f"{self.acknowledged} events acknowledged, {self.refused} refused, "
            f"{self.dropped} dropped, {self.pending} not acknowledged"
        )
        why = self.problem or (self.refusals[-1].reason if self.refusals else None)
        return figures if why is None else f"{figures}: {why}"


class BufferFull(Unavailable):
    """The buffer had no room in time: nothing of this call was taken, so tell it again later."""

    code = "buffer_full"


class Undelivered(ArcoError):
    """Not everything that was told is durable; the report says what is not."""

    code = "undelivered"

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report = report


@dataclass
class Tally:
    """The figures of a report, as they come; guarded by whoever holds it."""

    acknowledged: int = 0
    refused: int = 0
    dropped: int = 0
    problem: str | None = None
    refusals: deque[Refused] = field(default_factory=lambda: deque(maxlen=MOST_REFUSED))

    def report(self, pending: int) -> Report:
        """The figures of this moment."""
        return Report(
            acknowledged=self.acknowledged,
            refused=self.refused,
            dropped=self.dropped,
            pending=pending,
            refusals=tuple(self.refusals),
            problem=self.problem if pending else None,
        )
