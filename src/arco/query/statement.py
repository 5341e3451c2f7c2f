"""Statements: what may be asked at all, found out before anything is planned.

This is the first of two doors: the planner refuses whatever changes something once more, by its plan and
not by its words.
"""

import re

from arco.core.errors import Invalid

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
