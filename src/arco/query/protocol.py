"""What an engine and its worker say to each other, over two pipes.

A frame is eight bytes of length and as many bytes. A message is one frame of JSON; one that announces data
is followed by a frame of data. The engine speaks first, and every message has one reply.
"""

from datetime import datetime
from typing import BinaryIO

import msgspec

from arco.core import json
from arco.ledger.envelope import RowCount
from arco.query.limits import QueryLimits
from arco.query.pruning import Spans

_LENGTH_BYTES = 8


class WorkerMessage(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Something said."""


class Configure(WorkerMessage, frozen=True, kw_only=True):
    """The first message: under which limits to work. Answered by `Done`."""

    limits: QueryLimits


class PlanQuery(WorkerMessage, frozen=True, kw_only=True):
    """Which tables does this need? Answered by `Needs` or `Refused`."""

    sql: str


class FindMissing(WorkerMessage, frozen=True, kw_only=True):
    """These data are needed. Answered by `Lacks`."""

    keys: tuple[str, ...]


class PutStateFile(WorkerMessage, frozen=True, kw_only=True):
    """A Parquet file follows, under its hash. Answered by `Done` or `Broken`."""

    key: str
    state: str
    rows: int
    columns: tuple[str, ...] = ()  # to decode; none stands for all


class PutRows(WorkerMessage, frozen=True, kw_only=True):
    """PutRows follow as an Arrow stream. Answered by `Done`."""

    key: str


class SegmentSlice(msgspec.Struct, frozen=True):
    """A segment of the ledger: so many bytes of the data that follow, and the key of its rows."""

    key: str
    stream: str
    seq: int
    size_bytes: int


class ExpandSegments(WorkerMessage, frozen=True, kw_only=True):
    """ExpandSegments of the ledger follow, one behind another. Answered by `Expanded`.

    They are expanded into rows of one table of state, unless these are more than there is `room` for.
    """

    state: str
    segments: tuple[SegmentSlice, ...]
    retained_from: dict[str, datetime]
    room: RowCount


class FoldTail(WorkerMessage, frozen=True, kw_only=True):
    """Send the rows that these segments have made, folded. Answered by `Result` or `Refused`."""

    state: str
    keys: tuple[str, ...]


class StateFileRef(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a table of state: where it lies in the order of merging."""

    key: str
    tail: bool
    buckets: tuple[int, ...]


class StateInputs(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What to make a table of state of. It is `whole` if nothing was passed over."""

    parts: tuple[StateFileRef, ...]
    whole: bool = True
    segments: tuple[str, ...] = ()  # of the ledger, by the keys of the rows that they have made
    retained_from: datetime | None = None  # older rows are not there any more


class ViewRequest(msgspec.Struct, frozen=True):
    """A table of `system` that is to be made of tables of state, with what is joined to it or without."""

    view: str
    joined: bool = False


class RunQuery(WorkerMessage, frozen=True, kw_only=True):
    """Answer the query from data that were sent. Answered by `Result` and a stream, or `Refused`."""

    sql: str
    states: dict[str, StateInputs]  # by table of state
    views: tuple[ViewRequest, ...]
    rows: dict[str, str]  # by table of `system`, the keys of those that came finished


class Ack(WorkerMessage, frozen=True, kw_only=True):
    """It was done."""


class SystemScan(msgspec.Struct, frozen=True, kw_only=True):
    """A table of `system` that a query reads: its columns that it uses, and which rows.

    `wanted` has an entry for each place where the query reads it: by column, the values to look for. A
    column that is not named there may have any.
    """

    view: str
    columns: tuple[str, ...]
    wanted: tuple[dict[str, Spans], ...]


class QueryScans(WorkerMessage, frozen=True, kw_only=True):
    """What a query reads; with `explains` it asks for its plan."""

    scans: tuple[SystemScan, ...]
    explains: bool = False


class MissingKeys(WorkerMessage, frozen=True, kw_only=True):
    """Of what was offered, what is not here."""

    keys: tuple[str, ...]


class ExpandedCounts(WorkerMessage, frozen=True, kw_only=True):
    """How many rows each segment makes; they were made only if there is room for all of them."""

    counts: tuple[RowCount, ...]


class ArrowResult(WorkerMessage, frozen=True, kw_only=True):
    """The result follows as an Arrow stream."""


class QueryRejected(WorkerMessage, frozen=True, kw_only=True):
    """The query cannot be answered, and why."""

    reason: str


class CorruptFile(WorkerMessage, frozen=True, kw_only=True):
    """A file is not what its manifest says."""

    reason: str


WorkerRequest = (
    Configure
    | PlanQuery
    | FindMissing
    | PutStateFile
    | PutRows
    | ExpandSegments
    | FoldTail
    | RunQuery
)
WorkerReply = (
    Ack | QueryScans | MissingKeys | ExpandedCounts | ArrowResult | QueryRejected | CorruptFile
)

WITH_DATA = (PutStateFile, PutRows, ExpandSegments)  # messages that announce data


def write_message(
    pipe: BinaryIO, message: WorkerRequest | WorkerReply, data: bytes | None = None
) -> None:
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
