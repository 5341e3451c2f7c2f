"""Expansion: the rows of one table of state that a segment makes. Only an SQL process does this.

A small event may make many rows, such as a pair for each partition that was read and each that was written.
So the rows are counted before any of them is made.
"""

from collections.abc import Mapping
from datetime import datetime

import pyarrow as pa

from arco.events.read import DecodedSegment
from arco.ledger.segment import Segment
from arco.query.needs import State


def decode_tail(
    state: State, segment: Segment, retained_from: Mapping[str, datetime]
) -> DecodedSegment:
    """The events of a segment, for the rows of one table of state."""
    tables = frozenset({state.table.name})
    return DecodedSegment(state.domain, segment, retained_from, tables=tables)


def expand(state: State, decoded: DecodedSegment) -> pa.Table:
    """The rows of that table, not folded."""
    found = decoded.read().rows
    return found.get(state.table.name, state.table.schema.empty_table())
