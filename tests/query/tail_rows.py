"""The rows that a ledger tail makes, in this process: what a worker makes of it, without its limits."""

import pyarrow as pa

from arco.events.read import DecodedSegment
from arco.query.ledger_tail import LedgerTail
from arco.query.system_tables import DomainTable


def tail_rows(tail: LedgerTail, state: DomainTable) -> pa.Table:
    """The rows of one state table, not folded."""
    name, empty = state.table.name, state.table.schema.empty_table()
    decoded = (
        DecodedSegment(tail.domain, each.segment, tail.retained_from, tables={name})
        for each in tail.segments
    )
    return pa.concat_tables([empty, *(each.read().rows.get(name, empty) for each in decoded)])
