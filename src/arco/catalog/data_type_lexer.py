"""The words of a data type: names, numbers, quoted names, strings and marks, each with its place.

The rules are those of Spark SQL's own lexer, as far as types need them, but for unquoted names: the
simple string of a struct prints any name as it is, so a word may hold any letter or digit.
"""

import re
from typing import NamedTuple

from arco.core.errors import Invalid

# The repetitions give nothing back, so that a text of quotes alone is still read in one pass.
_TOKEN = re.compile(
    r"""
      (?P<space>\s++)
    | (?P<word>\w++)
    | (?P<quoted>`(?:[^`]|``)*+`)
    | (?P<string>'(?:[^'\\]|\\.|'')*+'|"(?:[^"\\]|\\.|"")*+")
    | (?P<mark>[<>(),:])
    """,
    re.VERBOSE | re.DOTALL,
)
_UNCLOSED = {"`": "this backtick", "'": "this quote", '"': "this quote"}
_ESCAPE = re.compile(
    r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([01][0-7]{2})|(.))|''|\"\"", re.DOTALL
)
_LETTERS = {
    "0": "\0",
    "b": "\b",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "Z": "\x1a",
    "%": "\\%",
    "_": "\\_",  # Spark keeps these two, for patterns
}
_BARE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class Token(NamedTuple):
    """One piece of the text; `kind` is the name of its group above, or `end`."""

    kind: str
    text: str
    at: int

    @property
    def keyword(self) -> str:
        """The word as keywords are compared; a letter that merely folds to ASCII makes none."""
        return self.text.lower() if self.kind == "word" and self.text.isascii() else ""

    def refuse(self, problem: str) -> Invalid:
        """The error that says where this token stands and what is wrong with it."""
        return refusal(self.at, problem)

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else repr(self.text[:40])


def refusal(at: int, problem: str) -> Invalid:
    """The error for a type that is wrong at an index; people count characters from 1."""
    return Invalid(f"the data type is not valid at character {at + 1}: {problem}")


def tokens(text: str) -> list[Token]:
    """The tokens of `text` without its white space, closed by one of kind `end`."""
    found: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise refusal(at, _why_not(text[at]))
        if match.lastgroup != "space":
            found.append(Token(match.lastgroup, match[0], at))
        at = match.end()
    return [*found, Token("end", "", len(text))]


def _why_not(letter: str) -> str:
    if letter in _UNCLOSED:
        return f"{_UNCLOSED[letter]} is never closed"
    return f"unexpected {letter!r}; a field's name that holds it needs backticks around it"


def read_name(token: Token) -> str:
    """The name that a word or a quoted name stands for."""
    return token.text[1:-1].replace("``", "`") if token.kind == "quoted" else token.text


def print_name(name: str) -> str:
    """`name` with backticks around it where Spark's parser needs them."""
    if _BARE_NAME.match(name):
        return name
    doubled = name.replace("`", "``")
    return f"`{doubled}`"


def read_string(token: Token) -> str:
    """The text that a string stands for."""
    quote, body = token.text[0], token.text[1:-1]

    def unescape(match: re.Match[str]) -> str:
        short, long, octal, letter = match.groups()
        if letter is not None:
            return _LETTERS.get(letter, letter)
        if octal is not None:
            return chr(int(octal, 8))
        if short is None and long is None:  # two quotes: one, if they are the ones that enclose
            return quote if match[0][0] == quote else match[0]
        code = int(short or long, 16)
        if code > 0x10FFFF:
            raise token.refuse(f"{match[0]} is beyond the last character of Unicode")
        return chr(code)

    return _ESCAPE.sub(unescape, body)


def print_string(text: str) -> str:
    """`text` as a string in single quotes, with the two escapes that it needs."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
