"""Lines of JSON between a process and its child: rings go down, what was done comes up."""

from typing import BinaryIO

import msgspec

from arco.compactor.cycle import Cycle
from arco.core import json
from arco.ledger.segment import Segment


class Handed(msgspec.Struct, frozen=True):
    """A segment that is durable, with its bytes."""

    seq: int
    raw: bytes


class Ring(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """A stream of a domain has something new, and this of it, as far as it is small.

    Losing one costs time only: the segments are in the store too.
    """

    domain: str
    stream: str
    segments: tuple[Handed, ...] = ()

    def handed(self) -> list[Segment]:
        """The segments that need not be read any more."""
        return [Segment(self.stream, each.seq, False, each.raw) for each in self.segments]


class Ready(msgspec.Struct, frozen=True, tag=True):
    """Spark is up and warm."""

    ms: int


class Cycled(msgspec.Struct, frozen=True, tag=True):
    """Something was published."""

    cycle: Cycle


class Failed(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """Something has failed: what, the type of the error, and its words as far as a log may hold them.

    `domains` are those whose last cycle failed.
    """

    what: str
    error: str
    detail: str = ""
    domains: tuple[str, ...] = ()


Said = Ready | Cycled | Failed


def encode(message: Ring | Said) -> bytes:
    """The line of a message."""
    return json.encode(message) + b"\n"


def read_ring(stream: BinaryIO) -> Ring | None:
    """The next ring; None when whoever rings is gone."""
    line = stream.readline()
    return json.decode(line, Ring) if line.endswith(b"\n") else None


def read_said(stream: BinaryIO) -> Said | None:
    """What the child says next; None when it is gone."""
    line = stream.readline()
    said: Said | None = json.decode(line, Said) if line.endswith(b"\n") else None  # type: ignore[arg-type]
    return said
