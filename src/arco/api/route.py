"""A route as data: what is asked how, which operation it is, and the types of all that travels."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar

from arco.access.authorization import Operation, TargetKind
from arco.access.principal import LOCAL_USER, Principal
from arco.api.query_params import Query
from arco.catalog.snapshot import Snapshot
from arco.core import json
from arco.core.tasks import Event

Q = TypeVar("Q", bound=Query)
B = TypeVar("B")

JSON = "application/json"

_CHECKED_BYTES = 1024 * 1024

_BODILESS = frozenset({204, 304})

# By what a path calls them, the innermost first. A view is a table to the catalog.
_TARGETS = {
    "table": TargetKind.TABLE,
    "table_id": TargetKind.TABLE,
    "view": TargetKind.TABLE,
    "schema": TargetKind.SCHEMA,
    "namespace": TargetKind.SCHEMA,
    "catalog": TargetKind.CATALOG,
    "prefix": TargetKind.CATALOG,
    "id": TargetKind.OBJECT,
}


@dataclass(frozen=True)
class Reply:
    """What is sent back."""

    status: int
    body: bytes = b""
    content_type: str = JSON
    headers: dict[str, str] = field(default_factory=dict)
    # Whether equal ETags mean equal answers: a name above the object may have changed without it.
    revalidates: bool = True

    @cached_property
    def raw_headers(self) -> list[tuple[bytes, bytes]]:
        """The headers as they are sent; written once, since a reply may be kept and sent again."""
        headers = [(b"x-content-type-options", b"nosniff")]
        headers += [(name.lower().encode(), text.encode()) for name, text in self.headers.items()]
        if self.status not in _BODILESS:
            headers.append((b"content-type", self.content_type.encode()))
            headers.append((b"content-length", b"%d" % len(self.body)))
        return headers


class Call(Generic[Q, B]):
    """One request: who asks for what. `query` and `body` are read once it is known that they may."""

    __slots__ = (
        *("operation", "principal", "names", "path", "query_string", "headers", "arrived_ms"),
        *("query", "body", "head", "doubtful", "asked", "left", "address"),
    )

    query: Q
    body: B

    def __init__(
        self,
        *,
        operation: Operation,
        principal: Principal,
        names: dict[str, str],
        path: bytes,
        query_string: bytes,
        headers: dict[bytes, bytes],
        arrived_ms: float,
        address: str = "",
    ) -> None:
        self.operation = operation
        self.principal = principal
        self.names = names  # what stands in the path for its {placeholders}
        self.path = path
        self.query_string = query_string
        self.headers = headers
        self.arrived_ms = arrived_ms
        self.address = address  # of the client
        self.head: Snapshot | None = None  # the newest, where it has been looked up already
        self.doubtful: frozenset[str] = frozenset()  # ids of tables whose names may be dead
        self.left: Event | None = None  # where a route waits: set once the caller has left
        self.asked = False  # whether one of those was asked about: the reply holds for this moment

    @property
    def caller(self) -> str:
        """Who shares the SQL processes with others: a principal or, where all are the same, an address."""
        name = self.principal.name
        return f"{name}@{self.address}" if name == LOCAL_USER else name

    def header(self, name: bytes) -> str | None:
        """The value of a header; its name in lower case."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")


@dataclass(frozen=True)
class Answered:
    """One way in which a route answers."""

    status: int
    says: str
    body: Any = None  # a type that msgspec can describe, or None for no body
    also: tuple[str, ...] = ()  # other content types than JSON, of the same answer
    content_type: str = JSON


@dataclass(frozen=True)
class Sent(Generic[B]):
    """The body that a route takes: how it is read, and the types it may have."""

    read: Callable[[bytes], B]
    kinds: tuple[Any, ...]
    example: object
    optional: bool = False
    also: tuple[str, ...] = ()  # content types besides JSON


def sent(kind: type[B], example: object) -> Sent[B]:
    """A body of one type."""
    return Sent(lambda raw: read_document(raw, kind), (kind,), example)


def read_document(raw: bytes, kind: type[B]) -> B:
    """`raw` as a `kind`, or `Invalid`, also for a key that is there twice.

    Larger bodies than people write are of Arco's own processes, which write no key twice.
    """
    found = json.decode(raw, kind)
    if len(raw) <= _CHECKED_BYTES:
        json.refuse_duplicate_keys(raw)
    return found


@dataclass(frozen=True)
class Route(Generic[Q, B]):
    """One line of the table."""

    method: str
    path: str
    operation: Operation
    says: str
    handler: Callable[[Call[Q, B]], Coroutine[Any, Any, Reply]]
    query: type[Q]
    answers: tuple[Answered, ...]
    sent: Sent[B] | None = None
    problems: tuple[int, ...] = ()
    mutates: bool = False  # it may change something, so a lost answer leaves the outcome unknown
    keyed: bool = False  # takes an Idempotency-Key
    matched: bool = False  # takes If-Match
    pure: bool = False  # follows from a manifest and the URL alone, so its replies can be kept
    tagged: bool = True  # its answers have an ETag
    tables: bool = False  # tells of tables, whose names may be dead although the manifest has them
    body_bytes: int | None = None  # where the usual limit does not fit
    inflates: bool = False  # takes a body that was compressed
    named: bool = False  # names what it changes, so that repeating it needs no Idempotency-Key
    waits: bool = False  # may wait for something to happen, and is told when its caller leaves
    queries: bool = False  # a read by SQL, which is cancelled when its caller leaves

    @property
    def target(self) -> TargetKind:
        """What the operation acts on: the innermost thing that the path names."""
        for name, target in _TARGETS.items():
            if f"{{{name}}}" in self.path:
                return target
        return TargetKind.WORKSPACE


AnyRoute = Route[Any, Any]
