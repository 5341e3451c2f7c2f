"""The text of a SQL query: its tokens, its normal form, the tables that it names, and its syntax errors.

The tokenizer drops what has no meaning, for fingerprints; they are stored, so it must not change. Tables
and syntax errors come from sqlglot, which is slow to import and therefore imported when first needed.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from arco.catalog.name import quote_name_part
from arco.core.errors import Invalid

if TYPE_CHECKING:
    from sqlglot.expressions import Expr, Identifier

_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<comment>--[^\n]*|/\*(?!\+)(?:[^*]|\*(?!/))*\*/)
  | (?P<hint>/\*\+(?:[^*]|\*(?!/))*\*/)
  | (?P<raw>[rR]'[^']*'|[rR]"[^"]*")
  | (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
  | (?P<quoted>`(?:[^`]|``)*`)
  | (?P<word>[^\W\d]\w*)
  | (?P<number>\d[\w.]*)
  | (?P<sign>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_DIALECT = "spark"
_SHOWN_CHARS = 40
_CACHED_QUERIES = 256


@dataclass(frozen=True)
class SqlToken:
    """A token of a query, and where it begins in the text."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        """Where the text continues after it."""
        return self.start + len(self.text)


@dataclass(frozen=True)
class TableReference:
    """A dotted table name in a query; `then` is the token that follows it."""

    name: str
    line: int
    start: int
    end: int
    then: str


class SqlSyntaxError(Invalid):
    """A query that cannot be parsed; `errors` has the line and the message of each error."""

    def __init__(self, errors: list[tuple[int, str]]) -> None:
        line, message = errors[0]
        super().__init__(f"the query has a syntax error in its line {line}: {message}")
        self.errors = errors


def tokenize(sql: str) -> Iterator[SqlToken]:
    """The tokens that have a meaning, in order."""
    for match in _TOKEN.finditer(sql):
        kind = match.lastgroup or "sign"
        if kind not in ("space", "comment"):
            yield SqlToken(kind, match[0], match.start())


def normalize_sql(sql: str) -> str:
    """The query with one blank between any two tokens, and without comments."""
    return " ".join(each.text for each in tokenize(sql)).rstrip("; ")


def find_tables(sql: str) -> tuple[TableReference, ...]:
    """The tables with dotted names that a query reads, each once; none if it has syntax errors.

    A bare name may be a CTE or a view of the query.
    """
    tables: dict[str, TableReference] = {}
    with suppress(SqlSyntaxError):  # `arco validate` or Spark reports it
        for reference in find_table_references(sql):
            tables.setdefault(reference.name, reference)
    return tuple(tables.values())


def find_table_references(sql: str) -> list[TableReference]:
    """Each place at which a query names a table, in order; `SqlSyntaxError` if it cannot be parsed."""
    from sqlglot.expressions import Identifier, Table

    references: list[TableReference] = []
    for statement in parse_statements(sql):
        for table in statement.find_all(Table):
            parts = [each for each in table.parts if isinstance(each, Identifier)]
            if len(parts) == len(table.parts) > 1:  # the last part of a table function is a call
                references.append(_reference(sql, parts))
    return sorted(references, key=lambda each: each.start)


def query_errors(sql: str) -> list[tuple[int, str]]:
    """The syntax errors of the query of an asset, by line; also if it is no query, or several."""
    from sqlglot import expressions as exp

    try:
        statements = parse_statements(sql)
    except SqlSyntaxError as wrong:
        return wrong.errors
    if len(statements) > 1:
        return [
            (_first_line(sql), f"there are {len(statements)} statements: an asset is one query")
        ]
    allowed = (exp.Query, exp.Values, exp.Command, exp.Alias)
    if statements and not isinstance(statements[0], allowed):
        kind = type(statements[0]).__name__.upper()
        return [(_first_line(sql), f"{kind} is no query: write the SELECT, Arco writes the table")]
    return []


@lru_cache(_CACHED_QUERIES)
def parse_statements(sql: str) -> "tuple[Expr, ...]":
    """The statements of a text in Spark SQL; `SqlSyntaxError` if it has errors."""
    import sqlglot
    from sqlglot.errors import ParseError, TokenError

    try:
        return tuple(each for each in sqlglot.parse(sql, dialect=_DIALECT) if each is not None)
    except ParseError as wrong:
        raise SqlSyntaxError([_parse_error(each) for each in wrong.errors]) from wrong
    except TokenError as wrong:
        message = "it cannot be split into words: is a quotation mark or a comment left open?"
        raise SqlSyntaxError([(_first_line(sql), message)]) from wrong


def _parse_error(error: dict[str, object]) -> tuple[int, str]:
    message = str(error.get("description") or "it cannot be parsed").removesuffix(".")
    near = str(error.get("highlight") or "")[:_SHOWN_CHARS]
    return int(str(error.get("line") or 1)), f"{message} at {near!r}" if near else message


def _first_line(sql: str) -> int:
    return sql[: len(sql) - len(sql.lstrip())].count("\n") + 1


def _reference(sql: str, parts: "list[Identifier]") -> TableReference:
    start, end = parts[0].meta["start"], parts[-1].meta["end"] + 1
    following = (each.text for each in tokenize(sql[end:]) if each.kind != "hint")
    name = ".".join(quote_name_part(each.name) for each in parts)
    return TableReference(name, sql.count("\n", 0, start) + 1, start, end, next(following, ""))
