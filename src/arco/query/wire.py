"""What an engine and its worker say to each other, over two pipes.

A frame is eight bytes of length and as many bytes. A message is one frame of JSON; one that announces data
is followed by a frame of data. The engine speaks first, and every message has one reply.
"""

from datetime import datetime
from typing import BinaryIO

import msgspec

from arco.core import json
from arco.ledger.envelope import RowCount
from arco.query.limits import Limits
from arco.query.spans import Spans

_LENGTH_BYTES = 8


class Message(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Something said."""


class Greet(Message, frozen=True, kw_only=True):
    """The first message: under which limits to work. Answered by `Done`."""

    limits: Limits


class Plan(Message, frozen=True, kw_only=True):
    """Which tables does this need? Answered by `Needs` or `Refused`."""

    sql: str


class Offer(Message, frozen=True, kw_only=True):
    """These data are needed. Answered by `Lacks`."""

    keys: tuple[str, ...]


class StateFile(Message, frozen=True, kw_only=True):
    """A Parquet file follows, under its hash. Answered by `Done` or `Broken`."""

    key: str
    state: str
    rows: int
    columns: tuple[str, ...] = ()  # to decode; none stands for all


class Rows(Message, frozen=True, kw_only=True):
    """Rows follow as an Arrow stream. Answered by `Done`."""

    key: str


class SegmentSlice(msgspec.Struct, frozen=True):
    """A segment of the ledger: so many bytes of the data that follow, and the key of its rows."""

    key: str
    stream: str
    seq: int
    size_bytes: int


class Segments(Message, frozen=True, kw_only=True):
    """Segments of the ledger follow, one behind another. Answered by `Expanded`.

    They are expanded into rows of one table of state, unless these are more than there is `room` for.
    """

    state: str
    segments: tuple[SegmentSlice, ...]
    retained_from: dict[str, datetime]
    room: RowCount


class FoldTail(Message, frozen=True, kw_only=True):
    """Send the rows that these segments have made, folded. Answered by `Result` or `Refused`."""

    state: str
    keys: tuple[str, ...]


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a table of state: where it lies in the order of merging."""

    key: str
    tail: bool
    buckets: tuple[int, ...]


class Parts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What to make a table of state of. It is `whole` if nothing was passed over."""

    parts: tuple[Part, ...]
    whole: bool = True
    segments: tuple[str, ...] = ()  # of the ledger, by the keys of the rows that they have made
    retained_from: datetime | None = None  # older rows are not there any more


class Made(msgspec.Struct, frozen=True):
    """A table of `system` that is to be made of tables of state, with what is joined to it or without."""

    view: str
    joined: bool = False


class Run(Message, frozen=True, kw_only=True):
    """Answer the query from data that were sent. Answered by `Result` and a stream, or `Refused`."""

    sql: str
    states: dict[str, Parts]  # by table of state
    views: tuple[Made, ...]
    rows: dict[str, str]  # by table of `system`, the keys of those that came finished


class Done(Message, frozen=True, kw_only=True):
    """It was done."""


class Scan(msgspec.Struct, frozen=True, kw_only=True):
    """A table of `system` that a query reads: its columns that it uses, and which rows.

    `wanted` has an entry for each place where the query reads it: by column, the values to look for. A
    column that is not named there may have any.
    """

    view: str
    columns: tuple[str, ...]
    wanted: tuple[dict[str, Spans], ...]


class Needs(Message, frozen=True, kw_only=True):
    """What a query reads; with `explains` it asks for its plan."""

    scans: tuple[Scan, ...]
    explains: bool = False


class Lacks(Message, frozen=True, kw_only=True):
    """Of what was offered, what is not here."""

    keys: tuple[str, ...]


class Expanded(Message, frozen=True, kw_only=True):
    """How many rows each segment makes; they were made only if there is room for all of them."""

    counts: tuple[RowCount, ...]


class Result(Message, frozen=True, kw_only=True):
    """The result follows as an Arrow stream."""


class Refused(Message, frozen=True, kw_only=True):
    """The query cannot be answered, and why."""

    reason: str


class Broken(Message, frozen=True, kw_only=True):
    """A file is not what its manifest says."""

    reason: str


Asked = Greet | Plan | Offer | StateFile | Rows | Segments | FoldTail | Run
Said = Done | Needs | Lacks | Expanded | Result | Refused | Broken

WITH_DATA = (StateFile, Rows, Segments)  # messages that announce data


def write_message(pipe: BinaryIO, message: Asked | Said, data: bytes | None = None) -> None:
    """Say something, with the data that it announces."""
    write_frame(pipe, json.encode(message))
    if data is not None:
        write_frame(pipe, data)
    pipe.flush()


def write_frame(pipe: BinaryIO, data: bytes) -> None:
    """Send bytes."""
    pipe.write(len(data).to_bytes(_LENGTH_BYTES, "big"))
    pipe.write(data)


def read_frame(pipe: BinaryIO) -> bytes:
    """The next bytes, or `EOFError` if the other side is gone."""
    return _exactly(pipe, int.from_bytes(_exactly(pipe, _LENGTH_BYTES), "big"))


def _exactly(pipe: BinaryIO, size: int) -> bytes:
    data = pipe.read(size)
    if len(data) < size:
        raise EOFError
    return data
