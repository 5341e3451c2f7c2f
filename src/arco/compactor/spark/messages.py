"""The messages between Spark tasks and the driver.

Spark sees rows of four columns and nothing of the state tables. `shard` selects the task of the second
stage that gets a message. An error of Arco is a message too, and the driver raises it again.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple, TypeVar

import msgspec
import pyarrow as pa

from arco.compactor.engine import EngineCrashed, NewStateFile
from arco.core import json
from arco.core.errors import ArcoError, Unavailable, errors_by_code

MESSAGE_SCHEMA = "shard int, kind string, table string, data binary"

_ARROW = pa.schema(
    [("shard", pa.int32()), ("kind", pa.string()), ("table", pa.string()), ("data", pa.binary())]
)


class MessageKind(StrEnum):
    """What a message contains."""

    BLOB = "blob"  # rows of a table, as Arrow
    COUNTS = "counts"  # the others are JSON
    FILE = "file"
    FORGOTTEN = "forgotten"
    LARGE = "large"
    FAILURE = "failure"


class TaskMessage(NamedTuple):
    """One row of Spark."""

    shard: int
    kind: str
    table: str
    data: bytes


class LargeJob(msgspec.Struct, frozen=True):
    """The answer of a task that found its job too large for one task."""

    expected_bytes: int
    expected_rows: int
    fitting_segments: int  # how many of its first segments fit into one job


def to_message(kind: MessageKind, value: object) -> TaskMessage:
    """A message to the driver."""
    return TaskMessage(0, kind, "", json.encode(value))


def failure_message(problem: ArcoError) -> TaskMessage:
    """A message with an error to the driver."""
    return to_message(MessageKind.FAILURE, failure_of(problem))


def to_batches(messages: Iterable[TaskMessage]) -> Iterator[pa.RecordBatch]:
    """One batch per message: the largest are some megabytes."""
    for message in messages:
        columns = [
            pa.array([value], field.type) for value, field in zip(message, _ARROW, strict=True)
        ]
        yield pa.record_batch(columns, schema=_ARROW)


def from_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[TaskMessage]:
    """The messages in batches from Spark."""
    for batch in batches:
        for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield TaskMessage(*values)


class RemoteFailure(msgspec.Struct, frozen=True):
    """An error of Arco in another process."""

    code: str
    message: str

    def error(self) -> ArcoError:
        """The error to raise in this process."""
        kinds = errors_by_code() | {EngineCrashed.code: EngineCrashed}
        # An unknown code comes from a newer version. Nothing was published, so the job may be retried.
        return kinds.get(self.code, Unavailable)(self.message)


def failure_of(problem: ArcoError) -> RemoteFailure:
    """An error as data."""
    return RemoteFailure(problem.code, str(problem))


T = TypeVar("T")


class JobAnswers:
    """The messages of all tasks of a job; the constructor raises the error of a failed task."""

    def __init__(self, messages: list[TaskMessage]) -> None:
        self._messages = messages
        for failure in self.read(MessageKind.FAILURE, RemoteFailure):
            raise failure.error()

    def read(self, kind: MessageKind, of: type[T]) -> list[T]:
        """The content of all messages of one kind."""
        return [json.decode(each.data, of) for each in self._messages if each.kind == kind]

    def files(self) -> tuple[NewStateFile, ...]:
        """The files that were created."""
        return tuple(self.read(MessageKind.FILE, NewStateFile))
