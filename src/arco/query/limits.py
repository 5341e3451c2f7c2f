"""Limits: how much one query may take. They are generous for people and fatal for accidents."""

import re

import msgspec

from arco.core.errors import Invalid
from arco.ledger.envelope import RowCount

_MIB = 1024 * 1024


class QueryLimits(msgspec.Struct, frozen=True, kw_only=True):
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


ANSWERED = ("SELECT", "WITH", "VALUES", "EXPLAIN", "SHOW", "DESCRIBE", "DESC")

_SKIPPED = re.compile(r"\s+|--[^\n]*(?:\n|$)|\(")
_WORD = re.compile(r"[A-Za-z_]+")


def check_statement(sql: str, *, longest: int) -> None:
    """`Invalid` unless `sql` begins like a question and is not too long."""
    if len(sql) > longest:
        raise Invalid(f"the statement has {len(sql)} characters, and at most {longest} are read")
    if "\0" in sql:
        raise Invalid("the statement contains a null character")
    try:
        sql.encode()
    except UnicodeEncodeError as problem:
        raise Invalid("the statement is not valid Unicode text") from problem
    word = _first_word(sql)
    if not word:
        raise Invalid("there is no statement; try SELECT * FROM system.tables")
    if word.upper() not in ANSWERED:
        raise Invalid(
            f"{word[:40].upper()} is not answered here: queries are read only, and begin with "
            f"{', '.join(ANSWERED[:-2])} or DESCRIBE"
        )


def wants_fresh(freshness: str | None, as_of: str | None) -> bool:
    """Whether what is in no manifest yet is wanted too; `Invalid` for a freshness that we do not know.

    The catalog's own tables are always fresh: what was acknowledged is published.
    """
    if freshness not in (None, "published", "fresh"):
        raise Invalid(f"freshness is 'published' or 'fresh', not {freshness[:40]!r}")
    if freshness == "fresh" and as_of is not None:
        raise Invalid("as_of asks for what was published then: leave it out for a fresh read")
    return freshness == "fresh"


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
    """Where the comment that begins here ends; comments nest."""
    depth = 0
    for mark in re.finditer(r"/\*|\*/", sql[at:]):
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0:
            return at + mark.end()
    return len(sql)
