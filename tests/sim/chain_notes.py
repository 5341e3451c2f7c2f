"""The notes of a chain scenario: what its users asked for and were answered, kept outside of any process.

A user survives the crash of the process that served it: it knows what it asked for, and not whether
it happened. So notes outlive incarnations, and the auditor holds them against the store's log.
"""

from dataclasses import dataclass, field
from enum import Enum

import msgspec

from arco.storage.chain import Head
from arco.storage.entry import Entry

TICK = "tick"  # what every anonymous operation is called


class EntryBody(msgspec.Struct, frozen=True):
    """What a number of the simulated chain carries."""

    operation: str


class State(Enum):
    """What a user knows of an operation."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    UNDECIDED = "undecided"  # the evidence was collected before anyone could look


@dataclass
class Order:
    """One operation that a user wants done exactly once; anonymous ones at most once."""

    operation: str
    state: State = State.OPEN
    base: int | None = None  # a number that was there before the first attempt
    doubtful: bool = False  # whether an attempt may have been applied, or may yet be
    number: int = -1
    sha256: str = ""

    @property
    def is_open(self) -> bool:
        return self.state is State.OPEN

    @property
    def tried(self) -> bool:
        return self.base is not None

    def acknowledge(self, entry: Entry) -> None:
        self.state = State.ACKNOWLEDGED
        self.number, self.sha256 = entry.number, entry.sha256()


@dataclass(frozen=True)
class Sighting:
    """A head that a reader was shown, between two positions in the store's log."""

    reader: str
    log_before: int
    log_after: int
    number: int
    sha256: str


@dataclass
class Notes:
    """Everything that the auditor needs besides the log."""

    orders: list[Order] = field(default_factory=list)
    sightings: list[Sighting] = field(default_factory=list)
    collected_in_calm: bool = False
    read_at_the_end: bool = False

    def saw(self, reader: str, log_before: int, log_after: int, head: Head) -> None:
        sha256 = "" if head.entry is None else head.entry.sha256()
        self.sightings.append(Sighting(reader, log_before, log_after, head.number, sha256))
