"""Entries: the numbered objects of a chain, as stored and in memory.

An entry has its number, the SHA-256 of the exact bytes of its parent, the entry before it, and a
`create_id` made for exactly these bytes (P1). Its body is opaque here. It ends with a checksum of all
bytes before it, because no child names the hash of the head yet.
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

# In the year 9000: each entry is at least a millisecond later than its parent, whatever the clocks.
_LATEST_MS = 221_845_392_000_000

_MARK, _END = b',"checksum":"', b'"}'
_TAIL = len(_MARK) + 64 + len(_END)


class EntryRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An entry as it is stored; see docs/reference/formats/chains-and-ledger.md."""

    format: int
    create_id: str
    number: int
    parent_sha256: str | None
    created_at: datetime
    tombstone: bool = False
    body: msgspec.Raw


@dataclass(frozen=True)
class Entry:
    """An entry that was read or written, with its bytes in the store."""

    record: EntryRecord
    raw: bytes

    @property
    def number(self) -> int:
        return self.record.number

    @property
    def created_ms(self) -> int:
        return round(self.record.created_at.timestamp() * 1000)

    def sha256(self) -> str:
        """The hash that a child names as its parent's."""
        return self._sha256

    @cached_property
    def _sha256(self) -> str:
        return sha256_hex(self.raw)

    def body(self, kind: type[T]) -> T:
        """The body as a `kind`; `Corrupt` if it is something else.

        It is frozen and used by several callers, so it is decoded once.
        """
        decoded = self._bodies.get(kind)
        if decoded is not None:
            return cast("T", decoded)
        try:
            body = json.decode(bytes(self.record.body), kind)
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
    """The next entry after `parent`, with a new id and time."""
    created = utc(min(runtime.clock.now_ms(), _LATEST_MS))
    if parent is not None:
        # So that as-of by time is monotone, whatever the clocks of the writers (P9).
        created = max(created, parent.record.created_at + timedelta(milliseconds=1))
    record = EntryRecord(
        format=FORMAT,
        create_id=new_ulid(runtime),
        number=0 if parent is None else parent.number + 1,
        parent_sha256=None if parent is None else parent.sha256(),
        created_at=created,
        tombstone=tombstone,
        body=msgspec.Raw(json.encode(body)),
    )
    try:
        # Read back, so that no body can make an entry that cannot be read.
        return read_entry(checksummed(json.encode(record)), record.number, "a chain")
    except Corrupt as problem:
        raise Invalid(f"this cannot be the body of an entry: {problem}") from problem


def read_entry(raw: bytes, number: int, chain_path: str) -> Entry:
    """The entry in `raw`, which must be number `number` of the chain `where`."""
    if raw[-_TAIL:] != _tail(raw[:-_TAIL]):
        raise Corrupt(f"number {number} of {chain_path} does not match its checksum")
    try:
        record = json.decode(raw, EntryRecord)
    except Invalid as problem:
        raise Corrupt(
            f"number {number} of {chain_path} is not an entry of a chain: {problem}"
        ) from problem
    if record.number != number:
        raise Corrupt(f"number {number} of {chain_path} claims to be number {record.number}")
    if record.created_at.tzinfo is None:
        raise Corrupt(f"number {number} of {chain_path} has a time without a time zone")
    if not 1 <= record.format <= FORMAT:
        raise Corrupt(
            f"number {number} of {chain_path} has format {record.format}; upgrade Arco to read it"
        )
    return Entry(record, raw)


def checksummed(document: bytes) -> bytes:
    """A JSON object with, as its last field, the SHA-256 of all bytes before that field."""
    content = document[:-1]
    return content + _tail(content)


def _tail(content: bytes) -> bytes:
    return _MARK + sha256_hex(content).encode() + _END
