"""The rows that a tail makes, in this process: what an SQL process does with it, without its limits."""

import pyarrow as pa

from arco.query.ledger_tail import LedgerTail
from arco.query.system_tables import DomainTable
from arco.query.worker import decode_tail, expand


def tail_rows(tail: LedgerTail, state: DomainTable) -> pa.Table:
    """The rows of one table of state, not folded."""
    found = [
        expand(state, decode_tail(state, each.segment, tail.retained_from))
        for each in tail.segments
    ]
    return pa.concat_tables([state.table.schema.empty_table(), *found])
