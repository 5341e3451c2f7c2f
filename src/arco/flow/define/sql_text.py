"""Just enough of SQL's spelling to drop what means nothing and to see which tables are read.

This is no parser: it knows texts, quoted names and comments, so that nothing inside them is taken for
something else. What a query really reads is observed when it runs.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

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
# In these, FROM stands between arguments: extract(year from ordered_at).
_FROM_IN_CALL = frozenset({"EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "OVERLAY", "POSITION"})
_NAMES = frozenset({"word", "quoted"})
_PIPE = ("|", ">")
_BEFORE_TABLES = frozenset({"FROM", "JOIN"})
# Behind these, a comma no longer stands between tables.
_AFTER_TABLES = frozenset(
    {
        *("SELECT", "WITH", "WHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY", "LIMIT"),
        *("UNION", "EXCEPT", "MINUS", "INTERSECT", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE"),
    }
)


@dataclass(frozen=True)
class Token:
    """A piece of a query, the line that it stands on, and where in the text it begins."""

    kind: str
    text: str
    line: int
    start: int

    @property
    def end(self) -> int:
        """Where the text goes on behind it."""
        return self.start + len(self.text)


@dataclass(frozen=True)
class Named:
    """A table that a query names, as it is written there; `then` is the piece that follows."""

    name: str
    line: int
    start: int
    end: int
    then: str


def tokens(sql: str) -> Iterator[Token]:
    """The pieces that mean something, in their order."""
    line = 1
    for found in _TOKEN.finditer(sql):
        kind, text = found.lastgroup or "sign", found[0]
        if kind not in ("space", "comment"):
            yield Token(kind, text, line, found.start())
        line += text.count("\n")


def normal_sql(sql: str) -> str:
    """The query with one blank between any two pieces, and without comments."""
    return " ".join(each.text for each in tokens(sql)).rstrip("; ")


def tables_read(sql: str) -> tuple[Named, ...]:
    """The dotted names after FROM and JOIN, each once; a bare name may be a table of the query itself."""
    found: dict[str, Named] = {}
    for named in tables_named(sql):
        found.setdefault(named.name, named)
    return tuple(found.values())


def tables_named(sql: str) -> Iterator[Named]:
    """Each place at which a query names a table to read from, in their order."""
    pieces = list(_pieces(sql))
    texts = ["", *(each.text for each in pieces), ""]
    clauses = [_Clause()]
    for piece, before, then in zip(pieces, texts, texts[2:], strict=False):
        clause = clauses[-1]
        if piece.text == "(":
            clauses.append(clause.opened(before))
        elif piece.text == ")" and len(clauses) > 1:
            clauses.pop()
        elif piece.kind == "dotted" and clause.awaits_table and then != "(":
            yield Named(_name(piece.text), piece.line, piece.start, piece.end, then)
        clause.take(piece, before)


@dataclass
class _Clause:
    """What stands between two parentheses, or the query as a whole, as far as it was read."""

    call: str = ""  # the word before the parenthesis
    lists_tables: bool = False  # so that one more follows a comma
    awaits_table: bool = False

    def opened(self, before: str) -> "_Clause":
        """What a parenthesis begins: in place of a table, it is tables that are joined, or a query."""
        return _Clause(before.upper(), self.awaits_table, self.awaits_table)

    def take(self, piece: Token, before: str) -> None:
        """Go on by one piece."""
        word = piece.text.upper() if piece.kind == "word" else ""
        if word in _BEFORE_TABLES and not self._is_between_values(word, before):
            self.lists_tables = self.awaits_table = True
        elif word in _AFTER_TABLES or (before, piece.text) == _PIPE:
            self.lists_tables = self.awaits_table = False
        elif not (self.awaits_table and word == "LATERAL"):
            self.awaits_table = self.lists_tables and piece.text == ","

    def _is_between_values(self, word: str, before: str) -> bool:
        return word == "FROM" and (before.upper() == "DISTINCT" or self.call in _FROM_IN_CALL)


def _pieces(sql: str) -> Iterator[Token]:
    """The pieces without hints, and each dotted name as one."""
    found = [each for each in tokens(sql) if each.kind != "hint"]
    at = 0
    while at < len(found):
        first, end = found[at], at + 1
        while first.kind in _NAMES and _is_dotted(found[end : end + 2]):
            end += 2
        name = Token("dotted", sql[first.start : found[end - 1].end], first.line, first.start)
        yield first if end == at + 1 else name
        at = end


def _is_dotted(following: list[Token]) -> bool:
    return [each.text for each in following[:1]] == ["."] and following[-1].kind in _NAMES


def _name(dotted: str) -> str:
    """A name as Arco writes it."""
    return ".".join(_part(each) for each in tokens(dotted) if each.kind in _NAMES)


def _part(token: Token) -> str:
    """A part of a name as Arco writes it, with double quotes where it holds a dot."""
    part = token.text[1:-1].replace("``", "`") if token.kind == "quoted" else token.text
    if "." in part or '"' in part:
        doubled = part.replace('"', '""')
        return f'"{doubled}"'
    return part
