"""What a client asks of a store, in no dialect.

A dialect turns a request into one operation and turns the operation's result back into an
answer; the backend and the fault script know only operations and results.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from tests.faults.objects import ALWAYS, Condition


class Verb(StrEnum):
    """What a fault rule matches. Deleting many at once is a DELETE of many keys."""

    PUT = "put"
    GET = "get"
    HEAD = "head"
    DELETE = "delete"
    LIST = "list"
    # The steps of a multi-part upload before the one that publishes, which is a PUT.
    UPLOAD = "upload"
    BUCKET = "bucket"


@dataclass(frozen=True, slots=True)
class ByteRange:
    """A range header: `first` to `last` inclusive, or the final `suffix` bytes."""

    first: int = 0
    last: int | None = None
    suffix: int | None = None

    def within(self, size: int) -> tuple[int, int] | None:
        """The half-open span of an object of `size` bytes, or None if there is no such byte."""
        if self.suffix is not None:
            start, end = max(size - self.suffix, 0), size
        else:
            start, end = self.first, size if self.last is None else min(self.last + 1, size)
        return (start, end) if start < end else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The object that an operation is about."""

    verb: ClassVar[Verb]
    bucket: str
    key: str

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.key,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Put(Target):
    verb: ClassVar[Verb] = Verb.PUT
    body: bytes = field(repr=False)
    content_type: str = "application/octet-stream"
    metadata: Mapping[str, str] = field(default_factory=dict)
    condition: Condition = ALWAYS


@dataclass(frozen=True, slots=True, kw_only=True)
class Get(Target):
    verb: ClassVar[Verb] = Verb.GET
    span: ByteRange | None = None
    condition: Condition = ALWAYS


@dataclass(frozen=True, slots=True, kw_only=True)
class Head(Target):
    verb: ClassVar[Verb] = Verb.HEAD
    condition: Condition = ALWAYS


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginUpload(Target):
    """Open a multi-part upload; its condition is checked when it completes."""

    verb: ClassVar[Verb] = Verb.UPLOAD
    content_type: str = "application/octet-stream"
    metadata: Mapping[str, str] = field(default_factory=dict)
    condition: Condition = ALWAYS


@dataclass(frozen=True, slots=True, kw_only=True)
class PutPart(Target):
    verb: ClassVar[Verb] = Verb.UPLOAD
    upload_id: str
    part: str
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortUpload(Target):
    verb: ClassVar[Verb] = Verb.UPLOAD
    upload_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteUpload(Target):
    """Publish the named parts in their order, or, where none are named, all by part name.

    `body` is what the completing request itself brings, and comes last.
    """

    verb: ClassVar[Verb] = Verb.PUT
    upload_id: str
    parts: tuple[str, ...] | None = None
    body: bytes = field(default=b"", repr=False)
    condition: Condition = ALWAYS


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    verb: ClassVar[Verb] = Verb.DELETE
    bucket: str
    keys: tuple[str, ...]
    # Many at once are answered one by one, and a missing one does not fail the rest.
    batch: bool = False
    condition: Condition = ALWAYS


@dataclass(frozen=True, slots=True, kw_only=True)
class List:
    verb: ClassVar[Verb] = Verb.LIST
    bucket: str
    prefix: str = ""
    start: str = ""
    delimiter: str = ""
    limit: int = 1000

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.prefix,)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenBucket:
    """Create a bucket or look at it; either succeeds, for buckets exist on first use."""

    verb: ClassVar[Verb] = Verb.BUCKET
    bucket: str

    @property
    def keys(self) -> tuple[str, ...]:
        return ("",)


Operation = (
    Put
    | Get
    | Head
    | Delete
    | List
    | BeginUpload
    | PutPart
    | AbortUpload
    | CompleteUpload
    | OpenBucket
)
