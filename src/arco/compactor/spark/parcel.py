"""Parcels: what travels through Spark, from task to task and back to the driver.

Spark sees rows of four columns, and nothing of the tables of state. `shard` says which task of the second
stage gets a parcel; the driver does not look at it.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple

import msgspec
import pyarrow as pa

from arco.compactor.spark.failure import failure_of
from arco.core import json
from arco.core.errors import ArcoError

SCHEMA = "shard int, kind string, table string, data binary"

_ARROW = pa.schema(
    [("shard", pa.int32()), ("kind", pa.string()), ("table", pa.string()), ("data", pa.binary())]
)


class Kind(StrEnum):
    """What is in a parcel."""

    BLOB = "blob"  # rows of a table, as Arrow
    COUNTS = "counts"  # the others are JSON
    FILE = "file"
    FORGOTTEN = "forgotten"
    LARGE = "large"
    FAILURE = "failure"


class Parcel(NamedTuple):
    """One row."""

    shard: int
    kind: str
    table: str
    data: bytes


class Large(msgspec.Struct, frozen=True):
    """The answer of a task that was to fold a whole job, and has found too much of it."""

    expected_bytes: int
    expected_rows: int
    fitting_segments: (
        int  # how many of the job's first segments become no more rows than a job should
    )


def told(kind: Kind, value: object) -> Parcel:
    """A parcel for the driver."""
    return Parcel(0, kind, "", json.encode(value))


def failed(problem: ArcoError) -> Parcel:
    """A parcel that tells the driver what went wrong."""
    return told(Kind.FAILURE, failure_of(problem))


def to_batches(parcels: Iterable[Parcel]) -> Iterator[pa.RecordBatch]:
    """A batch a parcel: the largest are some megabytes."""
    for parcel in parcels:
        columns = [
            pa.array([value], field.type) for value, field in zip(parcel, _ARROW, strict=True)
        ]
        yield pa.record_batch(columns, schema=_ARROW)


def from_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[Parcel]:
    """The parcels in what Spark hands over."""
    for batch in batches:
        for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield Parcel(*values)
