"""What comes of an operation, in no dialect: what was asked for, or why not."""

from dataclasses import dataclass
from enum import Enum, auto

from tests.faults.objects import Page, StoredObject


class Refusal(Enum):
    """Why nothing useful came back. Each dialect has its own status and code for each."""

    NOT_FOUND = auto()
    NO_SUCH_UPLOAD = auto()
    ALREADY_EXISTS = auto()
    PRECONDITION_FAILED = auto()
    # The version that a write would replace is not there, nor is any other.
    NOTHING_TO_UPDATE = auto()
    NOT_MODIFIED = auto()
    RANGE_NOT_SATISFIABLE = auto()
    CONFLICT = auto()
    THROTTLED = auto()
    SLOW_DOWN = auto()
    UNAVAILABLE = auto()
    INTERNAL = auto()
    MALFORMED = auto()
    NOT_IMPLEMENTED = auto()


class Refused(Exception):
    """Raised by a dialect for a request that it cannot read as an operation."""

    def __init__(self, refusal: Refusal, detail: str) -> None:
        super().__init__(detail)
        self.refusal = refusal


@dataclass(frozen=True, slots=True)
class Fetched:
    """An object that was read; `span` is set where a range was asked for."""

    stored: StoredObject
    span: tuple[int, int] | None

    @property
    def body(self) -> bytes:
        return self.stored.body if self.span is None else self.stored.body[slice(*self.span)]


@dataclass(frozen=True, slots=True)
class Deleted:
    missing: frozenset[str]


@dataclass(frozen=True, slots=True)
class Upload:
    """A multi-part upload that is under way, and the tag of the part just stored, if any."""

    upload_id: str
    part_etag: str = ""
    stored_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Done:
    """It was done and there is nothing to tell."""


Success = StoredObject | Fetched | Deleted | Page | Upload | Done
Result = Success | Refusal
