"""Limits: how much one query may take. They are generous for people and fatal for accidents."""

import msgspec

from arco.ledger.envelope import RowCount

_MIB = 1024 * 1024


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one query, and all of them together, may use."""

    sql_chars: int = 100_000
    run_ms: int = 10_000  # planning, folding and running, each
    load_ms: int = 60_000  # reading what the query needs from the store
    wait_ms: int = 10_000  # for other queries to end
    workers: int = (
        2  # queries at the same time; one caller runs at most half of them, and at least one
    )
    queue: int = 64  # queries of all callers that wait for a process
    caller_queue: int = 16  # queries of one caller that wait for a process
    rows: int = 100_000  # of a result
    result_bytes: int = 64 * _MIB
    pool_bytes: int = 512 * _MIB  # what sorts, joins and groups of one query may hold
    cache_bytes: int = 512 * _MIB  # tables that a worker keeps for the next query
    process_bytes: int = 2048 * _MIB  # all of a worker: beyond it the system refuses
    history: int = 1_000  # how many numbers `commits`, `audit` and `manifests` go back
    wide_rows: int = 250_000  # of larger tables of state only the columns in use are decoded
    fresh_segments: int = 4_000  # of the ledger that one fresh read of a domain may take,
    fresh_events: int = 200_000
    fresh_bytes: int = 64 * _MIB
    fresh_rows: int = 500_000  # of one table of state that those events make,
    fresh_text_bytes: int = 256 * _MIB  # and the text in them

    @property
    def fresh_room(self) -> RowCount:
        """How much the events that a fresh read takes may make of one table of state."""
        return RowCount(self.fresh_rows, self.fresh_text_bytes)
