"""The messages between the engine and a worker process, over two pipes.

A frame is eight bytes of length and that many bytes. A message is one frame of JSON, followed by a frame of
data if it announces data. The engine sends requests, and the worker sends one reply to each.
"""

from datetime import datetime
from typing import BinaryIO

import msgspec

from arco.core import json
from arco.ledger.envelope import RowVolume
from arco.query.limits import QueryLimits
from arco.query.pruning import Spans

_LENGTH_BYTES = 8


class WorkerMessage(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A message of either direction."""


class Configure(WorkerMessage, frozen=True, kw_only=True):
    """Sets the limits; the first request. Answered by `Ack`."""

    limits: QueryLimits


class PlanQuery(WorkerMessage, frozen=True, kw_only=True):
    """Asks which tables a query reads. Answered by `QueryScans` or `QueryRejected`."""

    sql: str


class FindMissing(WorkerMessage, frozen=True, kw_only=True):
    """Asks which of these keys the worker does not hold. Answered by `MissingKeys`."""

    keys: tuple[str, ...]


class PutStateFile(WorkerMessage, frozen=True, kw_only=True):
    """A Parquet file follows; the key begins with its hash. Answered by `Ack` or `CorruptFile`."""

    key: str
    state: str
    rows: int
    columns: tuple[str, ...] = ()  # to decode; empty stands for all
    is_combined: bool = False  # it has rows of other tables too


class PutRows(WorkerMessage, frozen=True, kw_only=True):
    """Rows follow as an Arrow stream. Answered by `Ack`."""

    key: str


class SegmentSlice(msgspec.Struct, frozen=True):
    """A ledger segment in the data of a message: its size, and the key of its rows."""

    key: str
    stream: str
    seq: int
    size_bytes: int


class ExpandSegments(WorkerMessage, frozen=True, kw_only=True):
    """Ledger segments follow, concatenated. Answered by `ExpandedCounts`.

    The worker expands them into rows of one state table, unless they make more rows than `max_rows`.
    """

    state: str
    segments: tuple[SegmentSlice, ...]
    retained_from: dict[str, datetime]
    max_rows: RowVolume


class FoldTail(WorkerMessage, frozen=True, kw_only=True):
    """Asks for the folded rows of these segments. Answered by `ArrowResult` or `QueryRejected`."""

    state: str
    keys: tuple[str, ...]


class StateFileRef(msgspec.Struct, frozen=True, kw_only=True):
    """A state file that the worker holds; files of the tail are folded over the others."""

    key: str
    tail: bool
    buckets: tuple[int, ...]


class StateInputs(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state files and segments of a state table; `whole` if no file was pruned."""

    files: tuple[StateFileRef, ...]
    whole: bool = True
    segments: tuple[str, ...] = ()  # keys of the rows of ledger segments
    retained_from: datetime | None = None  # older rows are removed by retention


class ViewRequest(msgspec.Struct, frozen=True):
    """A table of `system` to make of state tables, with its joined columns or without."""

    view: str
    joined: bool = False


class RunQuery(WorkerMessage, frozen=True, kw_only=True):
    """Asks for the result over data that was sent. Answered by `ArrowResult` or `QueryRejected`."""

    sql: str
    states: dict[str, StateInputs]  # by state table
    views: tuple[ViewRequest, ...]
    rows: dict[str, str]  # by table of `system`, the keys of rows sent by `PutRows`


class Ack(WorkerMessage, frozen=True, kw_only=True):
    """The request succeeded."""


class SystemScan(msgspec.Struct, frozen=True, kw_only=True):
    """A table of `system` that a query reads: the used columns, and the wanted rows.

    `wanted` has an entry for each scan of the table in the plan: by column, the values that the filters
    allow. A column without an entry may have any value.
    """

    view: str
    columns: tuple[str, ...]
    wanted: tuple[dict[str, Spans], ...]


class QueryScans(WorkerMessage, frozen=True, kw_only=True):
    """The tables that a query reads; `explains` if it is an EXPLAIN."""

    scans: tuple[SystemScan, ...]
    explains: bool = False


class MissingKeys(WorkerMessage, frozen=True, kw_only=True):
    """The keys that the worker does not hold."""

    keys: tuple[str, ...]


class ExpandedCounts(WorkerMessage, frozen=True, kw_only=True):
    """The rows that each segment makes; they were made only if all of them fit."""

    counts: tuple[RowVolume, ...]


class ArrowResult(WorkerMessage, frozen=True, kw_only=True):
    """The result follows as an Arrow stream."""


class QueryRejected(WorkerMessage, frozen=True, kw_only=True):
    """The query cannot be answered."""

    reason: str


class CorruptFile(WorkerMessage, frozen=True, kw_only=True):
    """A file differs from what its manifest says."""

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

WITH_DATA = (PutStateFile, PutRows, ExpandSegments)  # requests that announce data


def write_message(
    pipe: BinaryIO, message: WorkerRequest | WorkerReply, data: bytes | None = None
) -> None:
    """Send a message, with the data that it announces."""
    write_frame(pipe, json.encode(message))
    if data is not None:
        write_frame(pipe, data)
    pipe.flush()


def write_frame(pipe: BinaryIO, data: bytes) -> None:
    """Send one frame."""
    pipe.write(len(data).to_bytes(_LENGTH_BYTES, "big"))
    pipe.write(data)


def read_frame(pipe: BinaryIO) -> bytes:
    """The next frame, or `EOFError` if the other process has ended."""
    return _read_exactly(pipe, int.from_bytes(_read_exactly(pipe, _LENGTH_BYTES), "big"))


def _read_exactly(pipe: BinaryIO, size: int) -> bytes:
    data = pipe.read(size)
    if len(data) < size:
        raise EOFError
    return data
