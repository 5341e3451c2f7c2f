"""What users of the simulated Iceberg catalog write down, for the auditor to hold against the log."""

from dataclasses import dataclass, field
from enum import Enum

from .iceberg_operations import Facts, Operation


class Outcome(Enum):
    """How a request was answered."""

    DONE = "done"
    REFUSED = "refused"
    UNAVAILABLE = "unavailable"  # not done; under a key perhaps by another hand
    UNKNOWN = "unknown"
    EXPIRED = "expired"  # the key is too old to know
    CORRUPT = "corrupt"  # stored bytes were missing


@dataclass(frozen=True)
class Reply:
    """An answer, and between which positions of the log its call was under way."""

    outcome: Outcome
    sent: int
    answered: int
    sent_ms: float
    answered_ms: float
    code: str = ""  # of a refusal: status and type
    detail: str = ""
    location: str | None = None  # of the metadata that were shown
    names: tuple[str, ...] = ()  # of a list


@dataclass
class Intent:
    """What a user wants once. Its name is its actor's, so that its operations can be identified."""

    name: str
    operation: Operation
    keyed: bool
    api: int = 0
    sent: int = -1  # the position of the log when it was first sent
    sent_ms: float = 0.0
    replies: list[Reply] = field(default_factory=list)
    given_up: bool = False

    @property
    def actor(self) -> str:
        return f"user:{self.name}"

    @property
    def is_answered(self) -> bool:
        return any(reply.outcome in (Outcome.DONE, Outcome.REFUSED) for reply in self.replies)

    @property
    def is_open(self) -> bool:
        return not self.given_up and not self.is_answered


@dataclass
class IcebergNotes:
    """All of it."""

    intents: list[Intent] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)  # errors that no rule allows
    finished: bool = False
    seen: dict[str, Facts] = field(default_factory=dict)  # tables as last seen, by name
    ids: list[str] = field(default_factory=list)  # of tables that were seen
    locations: list[str] = field(default_factory=list)  # of metadata that were shown

    def heard(self, name: str, facts: Facts, location: str) -> None:
        """A user was shown a table: that is worth another request."""
        self.seen[name] = facts
        if facts.uuid not in self.ids:
            self.ids.append(facts.uuid)
        if location not in self.locations:
            self.locations.append(location)
