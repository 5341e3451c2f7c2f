"""What users and readers of the simulated catalog write down, for the auditor to hold against the log."""

from dataclasses import dataclass, field
from enum import Enum

from arco.catalog.ddl import CreateSchema, CreateTable, Ddl, SchemaName, TableName


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
    walls: tuple[float, float]  # the server's wall clock at both ends
    detail: str = ""
    code: str = ""  # of a refusal
    number: int = -1  # of a success
    body: bytes = b""  # the whole answer, which is the same whenever it is given under a key


@dataclass
class Intent:
    """What a user wants once. Its name is its actor's, so that its operations can be identified."""

    name: str
    request: Ddl
    keyed: bool
    api: int = 0  # where it is sent first
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


@dataclass(frozen=True)
class Sighting:
    """What a reader saw at one number: name, id and commit of everything that was live."""

    reader: str
    number: int
    sha256: str
    sent: int  # position of the log before the head was asked for; -1 for a read as of a number
    answered: int
    live: list[tuple[str, str, int]]


@dataclass
class CatalogNotes:
    """All of it."""

    intents: list[Intent] = field(default_factory=list)
    sightings: list[Sighting] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)  # errors that no rule allows
    finished: bool = False
    ids: list[str] = field(default_factory=list)  # of objects that answers have named
    numbers: list[int] = field(default_factory=list)  # of commits
    schemas: list[SchemaName] = field(default_factory=list)  # that were there when last heard of
    tables: list[TableName] = field(default_factory=list)

    def heard(self, request: Ddl, object_id: str, number: int) -> None:
        """A request succeeded: the objects it names are worth another request."""
        if object_id not in self.ids:
            self.ids.append(object_id)
        self.numbers.append(number)
        match request:
            case CreateSchema():
                self.schemas.append(SchemaName(request.catalog, (*request.parent, request.name)))
            case CreateTable():
                place = request.schema
                self.tables.append(TableName(place.catalog, place.path, request.name))
