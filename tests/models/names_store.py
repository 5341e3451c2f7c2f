"""Two chains and one name (P31): a table is visible if the name leads to it and its chain lives."""

from typing import Literal, NamedTuple

VERSION, TOMBSTONE = "version", "tombstone"
OLD, NEW = 0, 1  # a table that was there before the run begins, and one that is created in it

Doing = Literal[
    "begin",
    "read",
    "point",
    "name",
    "release",
    "give back",
    "gone",
]


class Row(NamedTuple):
    """What Tier 1 says of the name."""

    table: int
    born: int


class Party(NamedTuple):
    doing: Doing = "begin"
    table: int = -1
    number: int = 0  # what it would create, or has created, in the chain


class Names(NamedTuple):
    chains: tuple[tuple[str, ...], ...]
    row: Row | None
    parties: tuple[Party, ...]
    promised: frozenset[int]  # ghost: tables answered as existing, and not dropped since
    denied: frozenset[int]  # ghost: tables answered as dropped, and not undropped since


def is_live(names: Names, table: int) -> bool:
    chain = names.chains[table]
    return bool(chain) and chain[-1] == VERSION


def is_visible(names: Names, table: int) -> bool:
    return names.row is not None and names.row.table == table and is_live(names, table)


def append(names: Names, table: int, number: int, kind: str) -> Names | None:
    """Put-if-absent of one number, or nothing."""
    chain = names.chains[table]
    if number != len(chain):
        return None
    longer = (*chain, kind)
    chains = (longer, names.chains[NEW]) if table == OLD else (names.chains[OLD], longer)
    return names._replace(chains=chains)
