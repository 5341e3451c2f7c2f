"""The SQL processes that this process has started."""

import os
from pathlib import Path

import pyarrow as pa

from arco.events.read import DecodedSegment
from arco.query.ledger_tail import LedgerTail
from arco.query.system_tables import DomainTable


def sql_processes() -> list[int]:
    """Their numbers, now."""
    process_ids = []
    for each in Path("/proc").iterdir():
        try:
            if each.name.isdigit():
                parent = int((each / "stat").read_text().rpartition(")")[2].split()[1])
                if (
                    parent == os.getpid()
                    and b"arco.query.worker" in (each / "cmdline").read_bytes()
                ):
                    process_ids.append(int(each.name))
        except OSError:
            continue  # it ended while we looked
    return process_ids


def tail_rows(tail: LedgerTail, state: DomainTable) -> pa.Table:
    """The rows of one state table, not folded."""
    name, empty = state.table.name, state.table.schema.empty_table()
    decoded = (
        DecodedSegment(tail.domain, each.segment, tail.retained_from, tables={name})
        for each in tail.segments
    )
    return pa.concat_tables([empty, *(each.read().rows.get(name, empty) for each in decoded)])
