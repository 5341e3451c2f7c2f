"""Warming up: the way of events through a worker, in memory alone, so that all it takes is loaded.

The first real job would wait for it otherwise: for imports, for the first use of Arrow's kernels, and for
the JVM to compile the plan.
"""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from arco.compactor.blob import pack, unpack
from arco.compactor.encode import encode
from arco.compactor.spark.parcel import Kind, Parcel, from_batches
from arco.compactor.spark.worker import Batches, NumberedTask
from arco.core import json
from arco.core.clock import utc
from arco.events.read import read_segment
from arco.events.registry import DOMAINS, KINDS, EventKind
from arco.fold.fold import fold
from arco.fold.tier2 import TIER2
from arco.ledger.envelope import Envelope, Source
from arco.ledger.segment import Segment


@dataclass(frozen=True)
class Warm(NumberedTask):
    """Reads the examples of all events, as if they had been sent."""

    async def work(self, _number: int, /) -> AsyncIterator[Parcel]:
        for domain in DOMAINS:
            for parcel in _parcels(domain):
                yield parcel


@dataclass(frozen=True)
class WarmFinish:
    """Makes files of what it is given, and throws them away."""

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for parcel in from_batches(batches):
            domain, _, name = parcel.table.partition("/")
            table = TIER2[domain][name]
            encode(table, fold(table, unpack(table, [parcel.data])), parcel.table)
        yield from ()


def _parcels(domain: str) -> Iterator[Parcel]:
    lines = [_line(kind) for kind in KINDS if kind.domain == domain]
    segment = Segment.of("warm", 0, lines)
    for name, rows in read_segment(domain, segment, {}).rows.items():
        table = TIER2[domain][name]
        for blob in pack(table, fold(table, rows), 2):
            yield Parcel(blob.shard, Kind.BLOB, f"{domain}/{name}", blob.data)


def _line(kind: EventKind) -> bytes:
    event = Envelope(
        event_id="0" * 26,
        event_type=kind.name,
        event_version=kind.version,
        occurred_at=utc(0),
        received_at=utc(0),
        idempotency_key="warm",
        source=Source("arco"),
        payload=msgspec.Raw(json.encode(kind.example)),
    )
    return json.encode(event)
