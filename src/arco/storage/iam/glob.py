"""Globs: the table's patterns in the wildcards that AWS and Azure have.

In both, `*` stands for any characters, slashes too, and `?` for exactly one. So one part of a path becomes
`?*`, and what has too many parts is taken away again by a second, negative glob. That works for a
pattern with a fixed end (`sequence/*/head.json`). Before an open end (`warehouse/*/metadata/*`) it does
not: the negative glob would take away keys that are meant, so such a pattern stays loose.
"""

from collections.abc import Iterator

from arco.storage.roles import EVERYTHING, FLOORS, RULES, Role, Verb, may, patterns

PART = "?*"


def is_open(pattern: str) -> bool:
    """Whether a pattern means everything below a place."""
    return pattern == EVERYTHING or pattern.endswith("/*")


def glob(pattern: str) -> str:
    """A glob that matches every key of the pattern, and perhaps deeper ones."""
    return pattern.replace("*", PART)


def listing_glob(pattern: str) -> str:
    """A glob for the prefix of a listing, which may end right at the slash."""
    return pattern[:-1].replace("*", PART) + "*" if is_open(pattern) else glob(pattern)


def loose() -> list[str]:
    """The patterns that no pair of globs can render exactly."""
    every = {pattern for rule in RULES for pattern in rule.patterns}
    return sorted(each for each in every if is_open(each) and each.count("*") > 1)


def too_deep(role: Role, verb: Verb) -> list[str]:
    """Globs of keys that `glob` matches although the table does not mean them."""
    found = {each for pattern in patterns(role, verb) for each in _deeper(pattern)}
    return sorted(each for each in found if not may(role, verb, each.replace(PART, "x")))


def floors() -> list[str]:
    """Globs of the keys that are floors."""
    return [f"{FLOORS.removeprefix('/')}*", f"*{FLOORS}*"]


def _deeper(pattern: str) -> Iterator[str]:
    if is_open(pattern):
        return
    pieces = pattern.split("*")
    for star in range(1, len(pieces)):
        head, tail = PART.join(pieces[:star]), PART.join(pieces[star:])
        yield f"{head}{PART}/{PART}{tail}"
