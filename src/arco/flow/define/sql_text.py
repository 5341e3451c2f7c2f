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
_BEFORE_TABLES = frozenset({"FROM", "JOIN"})


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
    """Each place at which a query names a table to read from."""
    pieces = [each for each in tokens(sql) if each.kind != "hint"]
    calls: list[str] = []  # for each open parenthesis, the word before it
    for at, piece in enumerate(pieces):
        before = pieces[at - 1].text.upper() if at else ""
        if piece.text == "(":
            calls.append(before)
        elif piece.text == ")" and calls:
            calls.pop()
        elif _opens_tables(piece, before, calls):
            yield from _names_after(pieces, at + 1)


def _opens_tables(piece: Token, before: str, calls: list[str]) -> bool:
    word = piece.text.upper()
    if piece.kind != "word" or word not in _BEFORE_TABLES or before == "DISTINCT":
        return False
    return not (calls and word == "FROM" and calls[-1] in _FROM_IN_CALL)


def _names_after(pieces: list[Token], at: int) -> Iterator[Named]:
    """The name at a place, and those that follow it after a comma and perhaps an alias."""
    while True:
        parts, end = _dotted(pieces, at)
        if len(parts) > 1 and _text(pieces, end) != "(":
            name, first = ".".join(map(_quoted, parts)), pieces[at]
            yield Named(name, first.line, first.start, pieces[end - 1].end, _text(pieces, end))
        at = end
        if _text(pieces, at).upper() == "AS":
            at += 1
        if parts and at < len(pieces) and pieces[at].kind in ("word", "quoted"):
            at += 1
        if not parts or _text(pieces, at) != ",":
            return
        at += 1


def _dotted(pieces: list[Token], at: int) -> tuple[list[str], int]:
    parts: list[str] = []
    while at < len(pieces) and pieces[at].kind in ("word", "quoted"):
        text = pieces[at].text
        parts.append(text[1:-1].replace("``", "`") if pieces[at].kind == "quoted" else text)
        at += 1
        if _text(pieces, at) != ".":
            break
        at += 1
    return parts, at


def _text(pieces: list[Token], at: int) -> str:
    return pieces[at].text if at < len(pieces) else ""


def _quoted(part: str) -> str:
    """A part of a name as Arco writes it, with double quotes where it holds a dot."""
    if "." in part or '"' in part:
        doubled = part.replace('"', '""')
        return f'"{doubled}"'
    return part
