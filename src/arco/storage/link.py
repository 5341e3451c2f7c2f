"""Links: what a number of a chain looks like in the store, and in memory once it was read.

A link names its number, which its parent's is one below, the SHA-256 of its parent's exact bytes, and a
`create_id` minted for exactly these bytes (P1). What it carries is opaque here. It ends with a
checksum of all bytes before it: no child names the hash of a head yet, so a head vouches for itself.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import TypeVar, cast

import msgspec

from arco.core import json
from arco.core.clock import utc
from arco.core.errors import Corrupt, Invalid
from arco.core.hashing import sha256_hex
from arco.core.ids import new_ulid
from arco.core.runtime import Runtime

T = TypeVar("T")

FORMAT = 1

# In the year 9000. A wild clock must leave room for the links that follow, each a millisecond later.
_LATEST_MS = 221_845_392_000_000

_MARK, _END = b',"checksum":"', b'"}'
_TAIL = len(_MARK) + 64 + len(_END)


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """A number of a chain as it is stored; see docs/reference/formats/."""

    format: int
    create_id: str
    number: int
    parent_sha256: str | None
    created_at: datetime
    tombstone: bool = False
    body: msgspec.Raw


@dataclass(frozen=True)
class Entry:
    """A link that was read, or written, with the bytes it has in the store."""

    link: Link
    raw: bytes

    @property
    def number(self) -> int:
        return self.link.number

    @property
    def created_ms(self) -> int:
        return round(self.link.created_at.timestamp() * 1000)

    def sha256(self) -> str:
        """What a child must name as its parent."""
        return self._sha256

    @cached_property
    def _sha256(self) -> str:
        return sha256_hex(self.raw)

    def body(self, kind: type[T]) -> T:
        """What the link carries, as a `kind`; `Corrupt` if it is something else.

        It is frozen, and several ask for it, so it is decoded once.
        """
        known = self._bodies.get(kind)
        if known is not None:
            return cast("T", known)
        try:
            body = json.decode(bytes(self.link.body), kind)
        except Invalid as problem:
            name = getattr(kind, "__name__", kind)  # a union of kinds has no name
            raise Corrupt(f"number {self.number} does not hold a {name}") from problem
        self._bodies[kind] = body
        return body

    @cached_property
    def _bodies(self) -> dict[object, object]:
        return {}


def make_entry(
    runtime: Runtime, parent: Entry | None, body: object, *, tombstone: bool = False
) -> Entry:
    """The next link after `parent`, with an id and a time of its own."""
    created = utc(min(runtime.clock.now_ms(), _LATEST_MS))
    if parent is not None:
        # So that as-of by time is monotone, whatever the clocks of the writers (P9).
        created = max(created, parent.link.created_at + timedelta(milliseconds=1))
    link = Link(
        format=FORMAT,
        create_id=new_ulid(runtime),
        number=0 if parent is None else parent.number + 1,
        parent_sha256=None if parent is None else parent.sha256(),
        created_at=created,
        tombstone=tombstone,
        body=msgspec.Raw(json.encode(body)),
    )
    try:
        # Read back, so that nothing raw in a body can make a link that nobody can read.
        return read_entry(checksummed(json.encode(link)), link.number, "a chain")
    except Corrupt as problem:
        raise Invalid(f"this cannot be the body of a link: {problem}") from problem


def read_entry(raw: bytes, number: int, where: str) -> Entry:
    """The entry in `raw`, which must be number `number` of the chain `where`."""
    if raw[-_TAIL:] != _tail(raw[:-_TAIL]):
        raise Corrupt(f"number {number} of {where} does not match its checksum")
    try:
        link = json.decode(raw, Link)
    except Invalid as problem:
        raise Corrupt(f"number {number} of {where} is not a link: {problem}") from problem
    if link.number != number:
        raise Corrupt(f"number {number} of {where} says that it is number {link.number}")
    if link.created_at.tzinfo is None:
        raise Corrupt(f"number {number} of {where} has a time without a time zone")
    if not 1 <= link.format <= FORMAT:
        raise Corrupt(
            f"number {number} of {where} has format {link.format}; update Arco to read it"
        )
    return Entry(link, raw)


def checksummed(document: bytes) -> bytes:
    """A JSON object with, as its last field, the SHA-256 of all that stands before that field."""
    content = document[:-1]
    return content + _tail(content)


def _tail(content: bytes) -> bytes:
    return _MARK + sha256_hex(content).encode() + _END
