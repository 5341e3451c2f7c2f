"""Parcels: what travels through Spark, from task to task and back to the driver.

Spark sees rows of four columns, and nothing of the tables of state. `shard` says which task of the second
stage gets a parcel; the driver does not look at it.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple, TypeVar

import msgspec
import pyarrow as pa

from arco.compactor.engine import EngineCrashed, NewStateFile
from arco.core import json
from arco.core.errors import ArcoError, Unavailable

MESSAGE_SCHEMA = "shard int, kind string, table string, data binary"

_ARROW = pa.schema(
    [("shard", pa.int32()), ("kind", pa.string()), ("table", pa.string()), ("data", pa.binary())]
)


class MessageKind(StrEnum):
    """What is in a parcel."""

    BLOB = "blob"  # rows of a table, as Arrow
    COUNTS = "counts"  # the others are JSON
    FILE = "file"
    FORGOTTEN = "forgotten"
    LARGE = "large"
    FAILURE = "failure"


class TaskMessage(NamedTuple):
    """One row."""

    shard: int
    kind: str
    table: str
    data: bytes


class LargeJob(msgspec.Struct, frozen=True):
    """The answer of a task that was to fold a whole job, and has found too much of it."""

    expected_bytes: int
    expected_rows: int
    fitting_segments: (
        int  # how many of the job's first segments become no more rows than a job should
    )


def to_message(kind: MessageKind, value: object) -> TaskMessage:
    """A parcel for the driver."""
    return TaskMessage(0, kind, "", json.encode(value))


def failure_message(problem: ArcoError) -> TaskMessage:
    """A parcel that tells the driver what went wrong."""
    return to_message(MessageKind.FAILURE, failure_of(problem))


def to_batches(parcels: Iterable[TaskMessage]) -> Iterator[pa.RecordBatch]:
    """A batch a parcel: the largest are some megabytes."""
    for parcel in parcels:
        columns = [
            pa.array([value], field.type) for value, field in zip(parcel, _ARROW, strict=True)
        ]
        yield pa.record_batch(columns, schema=_ARROW)


def from_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[TaskMessage]:
    """The parcels in what Spark hands over."""
    for batch in batches:
        for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield TaskMessage(*values)


# A room may have kinds of its own, which are made of more than a message.
_CORE = ArcoError.__module__


class RemoteFailure(msgspec.Struct, frozen=True):
    """An error of ours in another process."""

    code: str
    message: str

    def error(self) -> ArcoError:
        """The error as it was raised there."""
        kinds = {kind.code: kind for kind in _kinds(ArcoError) if kind.__module__ == _CORE}
        kinds[EngineCrashed.code] = EngineCrashed
        # Of a newer Arco, that has more kinds of errors: nothing was published, so try again.
        return kinds.get(self.code, Unavailable)(self.message)


def failure_of(problem: ArcoError) -> RemoteFailure:
    """What went wrong, for the journey."""
    return RemoteFailure(problem.code, str(problem))


def _kinds(root: type[ArcoError]) -> Iterator[type[ArcoError]]:
    for kind in root.__subclasses__():
        yield kind
        yield from _kinds(kind)


T = TypeVar("T")


class JobAnswers:
    """What all tasks have answered; made only if none of them has failed."""

    def __init__(self, parcels: list[TaskMessage]) -> None:
        self._parcels = parcels
        for failure in self.read(MessageKind.FAILURE, RemoteFailure):
            raise failure.error()

    def read(self, kind: MessageKind, of: type[T]) -> list[T]:
        """What is in the parcels of one kind."""
        return [json.decode(each.data, of) for each in self._parcels if each.kind == kind]

    def files(self) -> tuple[NewStateFile, ...]:
        """The files that were created."""
        return tuple(self.read(MessageKind.FILE, NewStateFile))
