r"""Names of catalogs, schemas, tables and columns: validation, and how levels are joined.

Names are compared exactly, without case folding or normalisation, so that a name comes back as it was
given. Any Unicode name is allowed, unless it reads as a path in a URL, hides or reorders what a person
sees, or cannot be encoded as UTF-8. Names never become paths, patterns or policies, so `%`, `*`, quotes
and dots inside are fine.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence

from arco.core.errors import Invalid

LEVEL = "\x1f"  # joins the levels of a schema in a URL; a control character, so in no name
MAX_LEVELS = 32
MAX_NAME_BYTES = 255
MAX_TEXT_BYTES = 64 * 1024  # of a comment, and of a property's value
MAX_PROPERTIES = 1_000
MAX_PROPERTIES_BYTES = 1024 * 1024  # of all keys and values of one object together
MAX_TAGS = 100
RESERVED = "arco."  # keys of properties that only Arco itself sets

# A catalog may stand before the levels of a schema on the command line, and a table after them.
_MAX_PARTS = MAX_LEVELS + 2
_PART = re.compile(r'"((?:[^"]|"")*+)"|([^."]+)')

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_CONTROL_IN_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_DECEIVING = re.compile(
    "[\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    "\ufff9-\uffff\U000e0000-\U000e007f]"
)
# Controls, formats, marks that need a letter to sit on, and separators draw nothing of their own,
# and neither do the fillers that Unicode counts among letters and symbols. Dots alone are a path.
_UNSEEN = frozenset({"Cc", "Cf", "Mn", "Me", "Zl", "Zp", "Zs"})
_FILLERS = frozenset(".\u115f\u1160\u3164\uffa0\u2800")


def check_name(name: str, kind: str) -> str:
    """`name` as it is, if a catalog, schema or table may be called so; `kind` is for the message."""
    if "/" in name or "\\" in name:
        raise _not_a_name(name, kind, "it holds a slash or a backslash")
    if name != name.strip():
        raise _not_a_name(name, kind, "it starts or ends with white space")
    return check_column_name(name, kind)


def check_column_name(name: str, kind: str = "column") -> str:
    """`name` as it is, if a column may be called so: files come with slashes and blanks in theirs."""
    if problem := _problem(name):
        raise _not_a_name(name, kind, problem)
    return name


def _not_a_name(name: str, kind: str, problem: str) -> Invalid:
    return Invalid(f"{kind} {name[:80]!r} is not a valid name: {problem}")


def _problem(name: str) -> str | None:
    if problem := _length_problem(name, 1, MAX_NAME_BYTES):
        return problem
    if match := _CONTROL.search(name):
        return f"it holds the control character U+{ord(match[0]):04X}"
    if match := _DECEIVING.search(name):
        return f"it holds U+{ord(match[0]):04X}, which hides or reorders what people see"
    if not any(_is_visible(letter) for letter in name):
        return "it contains only dots and invisible characters"
    return None


def _length_problem(text: str, least: int, most: int) -> str | None:
    if match := _LONE_SURROGATE.search(text):
        return f"it holds U+{ord(match[0]):04X}, half of a surrogate pair, which UTF-8 cannot carry"
    if len(text) < least:
        return "it is empty"
    # A character has at least one byte: the first test spares us encoding what is far too long.
    if len(text) > most or len(text.encode()) > most:
        return f"it has more than {most} bytes of UTF-8"
    return None


def _is_visible(letter: str) -> bool:
    """Whether a letter is visible and not a dot."""
    return letter not in _FILLERS and unicodedata.category(letter) not in _UNSEEN


def check_comment(text: str) -> str:
    """`text` as it is, if it may be a comment: lines and tabs, but no other control characters."""
    if problem := _length_problem(text, 0, MAX_TEXT_BYTES):
        raise Invalid(f"a comment is not valid: {problem}")
    if match := _CONTROL_IN_TEXT.search(text):
        raise Invalid(f"a comment is not valid: it holds U+{ord(match[0]):04X}")
    return text


def check_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """A copy of `properties`, if each key and value may be stored.

    A value may hold control characters: engines keep their delimiters in properties.
    """
    if len(properties) > MAX_PROPERTIES:
        raise Invalid(f"{len(properties)} properties are too many: at most {MAX_PROPERTIES}")
    for key in properties:
        shown = f"{key[:80]!r}"
        if problem := _length_problem(key, 1, MAX_NAME_BYTES):
            raise Invalid(f"the key {shown} of a property is not valid: {problem}")
        if match := _CONTROL.search(key):
            raise Invalid(f"the key {shown} of a property holds U+{ord(match[0]):04X}")
        if key.strip().casefold().startswith(RESERVED):
            raise Invalid(f"the property {shown} is reserved: choose a key without {RESERVED!r}")
    check_property_sizes(properties)
    return dict(properties)


def check_property_sizes(properties: Mapping[str, str]) -> None:
    """`Invalid` if a value, or all keys and values together, have too many bytes."""
    total_bytes = 0
    for key, value in properties.items():
        if problem := _length_problem(value, 0, MAX_TEXT_BYTES):
            raise Invalid(f"the value of the property {key[:80]!r} is not valid: {problem}")
        total_bytes += len(key.encode()) + len(value.encode())
    if total_bytes > MAX_PROPERTIES_BYTES:
        raise Invalid(
            f"the properties have {total_bytes} bytes together, and at most {MAX_PROPERTIES_BYTES} "
            "are kept: set fewer, or remove some"
        )


def check_tags(tags: Sequence[str]) -> list[str]:
    """`tags` in their order without repetitions, if each may be a name."""
    once = list(dict.fromkeys(tags))
    if len(once) > MAX_TAGS:
        raise Invalid(f"{len(once)} tags are too many: at most {MAX_TAGS}")
    return [check_name(tag, "tag") for tag in once]


def check_owner(owner: str) -> str:
    """`owner` as it is, if it can name an owner: `user:ana`, or a name as another system writes it."""
    return check_column_name(owner, "owner")


def split_levels(text: str) -> tuple[str, ...]:
    """The levels of a schema out of a URL, where they are joined by `LEVEL`, after unescaping."""
    return _check_levels(text.split(LEVEL, MAX_LEVELS))


def join_levels(levels: Sequence[str]) -> str:
    """`levels` as a URL has them, before escaping; the inverse of `split_levels`."""
    return LEVEL.join(_check_levels(levels))


def _check_levels(levels: Sequence[str]) -> tuple[str, ...]:
    if not levels:
        raise Invalid("a schema has at least one level")
    if len(levels) > MAX_LEVELS:
        raise Invalid(f"a schema has at most {MAX_LEVELS} levels")
    return tuple(check_name(level, "schema") for level in levels)


def parse_dotted(text: str) -> tuple[str, ...]:
    """The parts of a name as people type it, joined by dots.

    A part that holds a dot or a double quote stands in double quotes, with each quote inside doubled.
    """
    parts: list[str] = []
    at = 0
    while match := _PART.match(text, at):
        quoted, bare = match.groups()
        parts.append(bare if quoted is None else quoted.replace('""', '"'))
        at = match.end()
        if at == len(text):
            return _check_parts(parts)
        if text[at] != ".":
            raise _not_dotted(text, at, "quotes go around a whole part, and are doubled inside it")
        at += 1
    if text[at : at + 1] == '"':
        raise _not_dotted(text, at, "this quote is never closed")
    raise _not_dotted(text, at, "a part of the name is missing")


def print_dotted(parts: Sequence[str]) -> str:
    """`parts` as people type them; the inverse of `parse_dotted`.

    They are names already and not checked again: a list prints as many as it has rows.
    """
    if not parts:
        raise Invalid("a dotted name has at least one part")
    return ".".join(map(quote_name_part, parts))


def quote_name_part(part: str) -> str:
    """A part of a dotted name, in double quotes if it contains a dot or a quote."""
    if "." not in part and '"' not in part:
        return part
    doubled = part.replace('"', '""')
    return f'"{doubled}"'


def _check_parts(parts: Sequence[str]) -> tuple[str, ...]:
    if len(parts) > _MAX_PARTS:
        raise Invalid(f"a dotted name has at most {_MAX_PARTS} parts")
    return tuple(check_name(part, "part") for part in parts)


def _not_dotted(text: str, at: int, problem: str) -> Invalid:
    return Invalid(f"the name {text[:80]!r} is not valid at character {at + 1}: {problem}")
