"""The changes that clients requested, and the answers they got: the only input that an audit trusts."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Document = dict[str, Any]


class Outcome(StrEnum):
    """What an answer says about the change."""

    DONE = "done"  # 2xx: it is there, and stays there
    REFUSED = "refused"  # 4xx: it was not made, and will not be
    TURNED_AWAY = "turned away"  # 503: nothing was changed
    UNKNOWN = "unknown"  # no answer, or 504: it may have been made, once


@dataclass(frozen=True)
class ChangeRequest:
    """One change. `operation` is what the commit record will call it.

    The mark is a word that no other change has. Where the change leaves it in the object, as a name or a
    comment, `marked` says so.
    """

    mark: str
    operation: str
    method: str
    path: str
    body: Document | None = None
    object_id: str | None = None  # None for what is yet to be made
    marked: bool = True
    key: str | None = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """One answer of a server: two for one key must be equal."""

    status: int
    body: bytes
    etag: str | None


@dataclass(frozen=True)
class Note:
    """What became of a change, as far as its client was told."""

    change: ChangeRequest
    outcome: Outcome
    answer: Answer | None = None
    object_id: str | None = None
    commit: int | None = None
    document: Document | None = None


@dataclass(frozen=True)
class Kill:
    """One `kill -9`, when its victim was ready again, by the monotonic clock."""

    killed_s: float
    ready_s: float


@dataclass
class Journal:
    """All that the clients of one run have to say."""

    notes: list[Note] = field(default_factory=list)
    acks: list[tuple[float, float]] = field(default_factory=list)  # sent, answered
    kills: list[Kill] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)  # what no client should ever see
    replays: int = 0

    def with_outcome(self, outcome: Outcome) -> list[Note]:
        return [note for note in self.notes if note.outcome is outcome]
