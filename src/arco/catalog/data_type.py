"""Data types: a lexer and parser for Spark SQL's types, which normalises each to one spelling.

Spark's other spellings are accepted too (`LONG`, `DEC`, `struct<a INT NOT NULL COMMENT 'x'>`), so that a
type can be copied from a CREATE TABLE. Two types are the same if their normalised texts are. NOT NULL and
the comment of a struct's field are kept. Any SRID of a geometry is accepted, since each release of Spark
adds some. Timestamps finer than microseconds, which Iceberg has, carry their digits: `timestamp_ntz(9)`
and `timestamp_ltz(9)`. An unquoted name may hold any letter or digit, because the simple string of a struct
prints names without quotes.
"""

import difflib
import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from arco.catalog.name import check_column_name, check_comment
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
    read: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise refusal(at, _character_problem(text[at]))
        if match.lastgroup != "space":
            read.append(Token(match.lastgroup, match[0], at))
        at = match.end()
    return [*read, Token("end", "", len(text))]


def _character_problem(letter: str) -> str:
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


MAX_CHARACTERS = 65_536
MAX_DEPTH = 64
_MAX_INT = 2**31 - 1  # Spark counts in 32 bits
_MAX_PRECISION = 38
_SHORT = 80  # what is not longer is worth remembering

_PLAIN = dict.fromkeys(("byte", "tinyint"), "tinyint")
_PLAIN |= dict.fromkeys(("short", "smallint"), "smallint")
_PLAIN |= dict.fromkeys(("integer", "int"), "int")
_PLAIN |= dict.fromkeys(("long", "bigint"), "bigint")
_PLAIN |= dict.fromkeys(("real", "float"), "float")
_PLAIN |= {name: name for name in ("double", "date", "binary", "boolean", "void", "variant")}
_YEARS = ("year", "month")
_DAYS = ("day", "hour", "minute", "second")


def normalise(text: str) -> str:
    """The one spelling of the data type `text`, or `Invalid` with where and what is wrong."""
    plain = _PLAIN.get(text)
    if plain is not None:
        return plain  # as most are; nothing to parse
    return _parse_cached(text) if len(text) <= _SHORT else _parse(text)


def _parse(text: str) -> str:
    _check_length(text)
    parser = _Parser(tokens(text))
    normal = parser.type(1)
    if parser.next.kind != "end":
        raise parser.next.refuse(f"expected the end of the type, found {parser.next}")
    _check_length(normal)  # it may be longer than the text, and must be readable itself
    return normal


_parse_cached = lru_cache(1_024)(_parse)  # catalogs have many columns and few types


def _check_length(text: str) -> None:
    if len(text) > MAX_CHARACTERS:
        raise Invalid(f"a data type has at most {MAX_CHARACTERS} characters, not {len(text)}")


class _Parser:
    """Reads from left to right, one token ahead, and prints what it has understood."""

    def __init__(self, token_list: list[Token]) -> None:
        self._tokens = token_list
        self._at = 0
        self._kinds: dict[str, Callable[[], str]] = {
            **dict.fromkeys(("decimal", "dec", "numeric"), self._decimal),
            "string": lambda: "string" + self._collation(),
            **dict.fromkeys(("char", "character"), lambda: self._sized("char")),
            "varchar": lambda: self._sized("varchar"),
            "timestamp": self._timestamp,
            "timestamp_ltz": lambda: self._digits("timestamp_ltz") or "timestamp",
            "timestamp_ntz": lambda: self._digits("timestamp_ntz") or "timestamp_ntz",
            "time": self._time,
            "interval": self._interval,
            "geometry": lambda: self._spatial("geometry"),
            "geography": lambda: self._spatial("geography"),
        }
        self._nested: dict[str, Callable[[int], str]] = {
            "array": self._array,
            "map": self._map,
            "struct": self._struct,
        }

    @property
    def next(self) -> Token:
        return self._tokens[self._at]

    def type(self, depth: int) -> str:
        """One type, `depth` levels down, in its normalised spelling."""
        token = self._take()
        if depth > MAX_DEPTH:
            raise token.refuse(f"types are nested more than {MAX_DEPTH} deep")
        word = token.keyword
        if word in _PLAIN:
            return _PLAIN[word]
        if word in self._kinds:
            return self._kinds[word]()
        if word in self._nested:
            return self._nested[word](depth + 1)
        if token.kind != "word":
            raise token.refuse(f"expected a type, found {token}")
        raise token.refuse(f"unknown type {token}{self._suggestion(word)}")

    def _suggestion(self, word: str) -> str:
        type_names = [*_PLAIN, *self._kinds, *self._nested]
        close = difflib.get_close_matches(word[:40], type_names, 1)
        return f", did you mean {close[0]}?" if close else ""

    def _array(self, depth: int) -> str:
        self._expect("<", "array<TYPE>")
        element = self.type(depth)
        self._expect(">", "array<TYPE>")
        return f"array<{element}>"

    def _map(self, depth: int) -> str:
        self._expect("<", "map<TYPE,TYPE>")
        key = self.type(depth)
        self._expect(",", "map<TYPE,TYPE>")
        value = self.type(depth)
        self._expect(">", "map<TYPE,TYPE>")
        return f"map<{key},{value}>"

    def _struct(self, depth: int) -> str:
        self._expect("<", "struct<NAME:TYPE,...>")
        fields: dict[str, str] = {}
        if self._skip(">"):
            return "struct<>"
        while True:
            token = self.next
            name = self._field_name()
            if name in fields:
                raise token.refuse(f"the struct has two fields {token}")
            fields[name] = self._field(name, depth)
            if self._skip(">"):
                return f"struct<{','.join(fields.values())}>"
            self._expect(",", "another field after it, or > at the end of the struct")

    def _field_name(self) -> str:
        token = self._take()
        if token.kind not in {"word", "quoted"}:
            raise token.refuse(f"expected the name of a field, found {token}")
        try:
            return check_column_name(read_name(token), "field")
        except Invalid as problem:
            raise token.refuse(str(problem)) from problem

    def _field(self, name: str, depth: int) -> str:
        self._skip(":")  # in DDL it may be missing
        printed = f"{print_name(name)}:{self.type(depth)}"
        if self._skip_word("not"):
            self._expect_word("null")
            printed += " not null"
        if self._skip_word("comment"):
            printed += f" comment {print_string(self._comment())}"
        return printed

    def _comment(self) -> str:
        token = self._take()
        if token.kind != "string":
            raise token.refuse(f"expected a comment in quotes, found {token}")
        try:
            return check_comment(read_string(token))
        except Invalid as problem:
            raise token.refuse(str(problem)) from problem

    def _decimal(self) -> str:
        precision, scale = 10, 0
        if self._skip("("):
            precision = self._number("the precision", 1, _MAX_PRECISION)
            if self._skip(","):
                scale = self._number("the scale", 0, precision)
            self._expect(")", "decimal(PRECISION,SCALE)")
        return f"decimal({precision},{scale})"

    def _sized(self, name: str) -> str:
        self._expect("(", f"{name}(LENGTH)")
        length = self._number("the length", 0, _MAX_INT)
        self._expect(")", f"{name}(LENGTH)")
        return f"{name}({length}){self._collation()}"

    def _collation(self) -> str:
        if not self._skip_word("collate"):
            return ""
        token = self._take()
        if not token.keyword:
            raise token.refuse(f"expected the name of a collation, found {token}")
        return f" collate {_print_collation(token.keyword)}"

    def _timestamp(self) -> str:
        if self._skip_word("with"):
            self._expect_words("local", "time", "zone")
        elif self._skip_word("without"):
            self._expect_words("time", "zone")
            return "timestamp_ntz"
        return "timestamp"

    def _digits(self, name: str) -> str:
        """`name` with its digits after the second, or nothing if it has the usual six."""
        if not self._skip("("):
            return ""
        digits = self._number("the precision", 7, 9)
        self._expect(")", f"{name}(PRECISION)")
        return f"{name}({digits})"

    def _time(self) -> str:
        precision = 6
        if self._skip("("):
            precision = self._number("the precision", 0, 6)
            self._expect(")", "time(PRECISION)")
        if self._skip_word("without"):
            self._expect_words("time", "zone")
        return f"time({precision})"

    def _interval(self) -> str:
        for units in (_YEARS, _DAYS):
            if self.next.keyword in units:
                first = self._take().keyword
                return f"interval {first}{self._last_unit(units[units.index(first) + 1 :])}"
        return "interval"

    def _last_unit(self, smaller: tuple[str, ...]) -> str:
        if not self._skip_word("to"):
            return ""
        token = self._take()
        if token.keyword not in smaller:
            choice = " or ".join(smaller) or "nothing, as no unit is smaller"
            raise token.refuse(f"an interval ends in a smaller unit: {choice}, not {token}")
        return f" to {token.keyword}"

    def _spatial(self, name: str) -> str:
        self._expect("(", f"{name}(SRID) or {name}(any)")
        srid = "any" if self._skip_word("any") else str(self._number("the SRID", 0, _MAX_INT))
        self._expect(")", f"{name}(SRID) or {name}(any)")
        return f"{name}({srid})"

    def _number(self, parameter: str, least: int, most: int) -> int:
        token = self._take()
        digits = token.text.lstrip("0") or token.text[:1]
        # Python refuses to read thousands of digits, so a long number is not read at all.
        if digits.isascii() and digits.isdecimal() and len(digits) <= len(str(_MAX_INT)):
            value = int(digits)
            if least <= value <= most:
                return value
        raise token.refuse(f"{parameter} is a number from {least} to {most}, not {token}")

    def _take(self) -> Token:
        token = self.next
        if token.kind != "end":
            self._at += 1
        return token

    def _skip(self, mark: str) -> bool:
        matches = self.next.kind == "mark" and self.next.text == mark
        self._at += matches
        return matches

    def _skip_word(self, word: str) -> bool:
        matches = self.next.keyword == word
        self._at += matches
        return matches

    def _expect(self, mark: str, form: str) -> None:
        if not self._skip(mark):
            raise self.next.refuse(f"expected {mark!r} as in {form}, found {self.next}")

    def _expect_word(self, word: str) -> None:
        if not self._skip_word(word):
            raise self.next.refuse(f"expected {word!r}, found {self.next}")

    def _expect_words(self, *words: str) -> None:
        for word in words:
            self._expect_word(word)


def _print_collation(name: str) -> str:
    """A lower-case collation as Spark prints it: `UTF8_LCASE`, `UNICODE_CI`, `sr_Cyrl_SRB_AI`."""
    first, *others = name.split("_")
    if first in {"utf8", "unicode"}:
        return name.upper()
    return "_".join([first, *(x.capitalize() if len(x) == 4 else x.upper() for x in others)])
