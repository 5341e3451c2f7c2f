"""Segments: the files of a stream. A header line, then one line for each event; a seal has only the header.

The header has the `create_id` (P1), so that a different batch with the same number is never mistaken for
one that was stored before.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import msgspec

from arco.core import json
from arco.core.errors import Corrupt, Invalid, NotFound
from arco.core.ids import Ulid, new_ulid
from arco.core.runtime import Runtime
from arco.ledger.envelope import Envelope
from arco.storage.store import Store

FORMAT = 1
MAX_BYTES = 16 * 1024 * 1024

_HEADER_BYTES = 512  # more than the longest header has

_KEY = re.compile(r"ledger/([^/]+)/([0-9A-HJKMNP-TV-Z]{26})/([0-9]{12})\.jsonl")


class SegmentHeader(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first line of a segment; see docs/reference/formats/chains-and-ledger.md."""

    format: int
    create_id: str
    stream: str
    seq: int
    seal: bool = False


@dataclass(frozen=True)
class SegmentLocation:
    """A segment that exists in the store."""

    stream: str
    seq: int
    seal: bool


@dataclass(frozen=True)
class Segment(SegmentLocation):
    """A segment with its bytes."""

    raw: bytes  # the header line and the events, each with its line end

    @classmethod
    def of(cls, stream: str, seq: int, lines: Iterable[bytes]) -> "Segment":
        """The segment with these events."""
        return cls(stream, seq, False, b"\n".join([b"", *lines, b""]))

    @cached_property
    def events(self) -> int:
        return self.raw.count(b"\n") - 1

    @cached_property
    def lines(self) -> tuple[bytes, ...]:
        """The lines of the events; `lines[0]` is line 1."""
        return tuple(self.raw.split(b"\n")[1:-1])

    @property
    def body(self) -> memoryview:
        """The bytes of all events."""
        return memoryview(self.raw)[self.raw.index(b"\n") + 1 :]


def segment_key(domain: str, stream: str, seq: int) -> str:
    """Where a segment is stored."""
    return f"ledger/{domain}/{stream}/{seq:012d}.jsonl"


def parse_segment_key(key: str) -> tuple[str, str, int] | None:
    """Domain, stream and number of the segment at `key`; None for a key that is no segment's."""
    match = _KEY.fullmatch(key)
    return None if match is None else (match[1], match[2], int(match[3]))


async def find_segment(store: Store, domain: str, stream: str, seq: int) -> Segment | None:
    """A segment, or None if it does not exist."""
    raw = await store.find(segment_key(domain, stream, seq), size_bytes=MAX_BYTES)
    return None if raw is None else decode_segment(raw, stream, seq)


async def find_location(store: Store, domain: str, stream: str, seq: int) -> SegmentLocation | None:
    """The location of a segment, from a few bytes of it, or None if it does not exist."""
    try:
        raw = await store.get_range(segment_key(domain, stream, seq), 0, _HEADER_BYTES)
    except NotFound:
        return None
    first, newline, rest = raw.partition(b"\n")
    header = _read_header(first, stream, seq)
    if not newline or (header.seal and rest):
        raise Corrupt(f"{_describe(stream, seq)} does not begin like a segment")
    return SegmentLocation(stream, seq, header.seal)


def encode_segment(runtime: Runtime, stream: Ulid, seq: int, lines: list[bytes]) -> bytes:
    """The bytes of a new segment, with a new `create_id`."""
    header = SegmentHeader(format=FORMAT, create_id=new_ulid(runtime), stream=stream, seq=seq)
    return b"\n".join([json.encode(header), *lines, b""])


def encode_seal(runtime: Runtime, stream: str, seq: int) -> bytes:
    """The bytes of a seal, the last segment of its stream (P16)."""
    header = SegmentHeader(
        format=FORMAT, create_id=new_ulid(runtime), stream=stream, seq=seq, seal=True
    )
    return json.encode(header) + b"\n"


def decode_segment(raw: bytes, stream: str, seq: int) -> Segment:
    """The segment in `raw`, which must be number `seq` of `stream`."""
    end = raw.find(b"\n")
    header = _read_header(raw if end < 0 else raw[:end], stream, seq)
    if end < 0 or not raw.endswith(b"\n") or (header.seal and len(raw) > end + 1):
        raise Corrupt(f"{_describe(stream, seq)} does not end like a segment")
    return Segment(stream, seq, header.seal, raw)


def decode_event(line: bytes) -> Envelope:
    """The event in one line of a segment, or `Invalid`: then the line goes to quarantine."""
    return json.decode(line, Envelope)


def _read_header(line: bytes, stream: str, seq: int) -> SegmentHeader:
    described = _describe(stream, seq)
    try:
        header = json.decode(line, SegmentHeader)
    except Invalid as problem:
        raise Corrupt(f"{described} has no header: {problem}") from problem
    if header.format > FORMAT:
        raise Corrupt(f"{described} has format {header.format}; upgrade Arco to read it")
    if (header.stream, header.seq) != (stream, seq):
        raise Corrupt(f"{described} says that it is segment {header.seq} of {header.stream}")
    return header


def _describe(stream: str, seq: int) -> str:
    return f"segment {seq} of stream {stream}"
