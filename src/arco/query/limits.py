"""Limits of queries: the resources they may use, and the statements that are accepted.

The statement check is the first of two: the planner refuses every plan that changes something, whatever
the words of the statement were.
"""

import re

import msgspec

from arco.core.errors import Invalid
from arco.ledger.envelope import RowVolume

_MIB = 1024 * 1024


class QueryLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The resources of one query, and of all queries together."""

    sql_chars: int = 100_000
    run_ms: int = 10_000  # planning, folding and running, each
    load_ms: int = 60_000  # reading the inputs of the query from the store
    wait_ms: int = 10_000  # for other queries to end
    workers: int = 2  # concurrent queries; one caller runs at most half of them, and at least one
    queue: int = 64  # queries of all callers that wait for a process
    caller_queue: int = 16  # queries of one caller that wait for a process
    rows: int = 100_000  # of a result
    result_bytes: int = 64 * _MIB
    pool_bytes: int = 512 * _MIB  # for sorts, joins and groups of one query
    cache_bytes: int = 512 * _MIB  # tables that a worker keeps for the next query
    process_bytes: int = 2048 * _MIB  # all memory of a worker, enforced by the operating system
    history: int = 1_000  # manifests that `commits`, `audit` and `manifests` go back
    wide_rows: int = 250_000  # of larger state tables only the used columns are decoded
    fresh_segments: int = 4_000  # of the ledger that one fresh read of a domain may read,
    fresh_events: int = 200_000
    fresh_bytes: int = 64 * _MIB
    fresh_rows: int = 500_000  # that those events make of one state table,
    fresh_text_bytes: int = 256 * _MIB  # and the text in these rows

    @property
    def fresh_row_limit(self) -> RowVolume:
        """The rows that the events of a fresh read may make of one state table."""
        return RowVolume(self.fresh_rows, self.fresh_text_bytes)


_ACCEPTED = ("SELECT", "WITH", "VALUES", "EXPLAIN", "SHOW", "DESCRIBE", "DESC")

_SKIPPED = re.compile(r"\s+|--[^\n]*(?:\n|$)|\(")
_WORD = re.compile(r"[A-Za-z_]+")


def check_statement(sql: str, *, max_chars: int) -> None:
    """Raise `Invalid` unless `sql` starts like a query and is short enough."""
    if len(sql) > max_chars:
        raise Invalid(
            f"the statement has {len(sql)} characters, and at most {max_chars} are accepted"
        )
    if "\0" in sql:
        raise Invalid("the statement contains a null character")
    try:
        sql.encode()
    except UnicodeEncodeError as problem:
        raise Invalid("the statement is not valid Unicode text") from problem
    word = _first_word(sql)
    if not word:
        raise Invalid("the statement is empty; try SELECT * FROM system.tables")
    if word.upper() not in _ACCEPTED:
        raise Invalid(
            f"{word[:40].upper()} is not accepted: queries are read only and start with "
            f"{', '.join(_ACCEPTED[:-2])} or DESCRIBE"
        )


def _first_word(sql: str) -> str:
    at = 0
    while True:
        skipped = _SKIPPED.match(sql, at)
        if skipped is not None:
            at = skipped.end()
        elif sql.startswith("/*", at):
            at = _after_comment(sql, at)
        else:
            break
    word = _WORD.match(sql, at)
    return word.group() if word is not None else sql[at : at + 1]


def _after_comment(sql: str, at: int) -> int:
    """The end of the comment that starts at `at`; comments nest."""
    depth = 0
    for mark in re.finditer(r"/\*|\*/", sql[at:]):
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0:
            return at + mark.end()
    return len(sql)
