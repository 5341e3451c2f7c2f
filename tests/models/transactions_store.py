"""Two pointer chains, the outcomes of transactions over them, and one idempotency key.

What a version holds is the list of the commits that it is made of, so that a lost one and a double
one can be seen. The key's claims name the transaction that their holder begins with.
"""

from typing import Literal, NamedTuple

COMMITTED, ABORTED = "committed", "aborted"
DONE, REFUSED = "2xx", "4xx"
Ops = tuple[str, ...]

Doing = Literal[
    "begin",
    "look up",
    "disown",
    "read",
    "abort",
    "check",
    "put",
    "decide",
    "refuse",
    "hopeless",
    "gone",
]


class Pointer(NamedTuple):
    by: str  # the attempt that created it
    ops: Ops
    transaction: str = ""
    previous: Ops = ()  # what counts while the transaction has not committed


class Party(NamedTuple):
    """A handler of one request."""

    doing: Doing = "begin"
    tables: tuple[int, ...] = ()
    step: int = 0  # how many of its tables it has done
    number: int = 0  # the number that it would create there
    base: Ops = ()
    rival: str = ""  # the transaction in its way
    passes: int = 0
    claim: int = 0
    may_time_out: bool = True


class Reader(NamedTuple):
    table: int = 0
    pointer: Pointer | None = None  # read, and its transaction not looked up yet
    shown_ops: frozenset[str] = frozenset()
    misled: bool = False


class PointerInFlight(NamedTuple):
    """A create that timed out, and is still under way: of a pointer, or of a commit."""

    table: int
    number: int
    pointer: Pointer


class Catalog(NamedTuple):
    chains: tuple[tuple[Pointer, ...], ...]
    outcomes: frozenset[tuple[str, str]]
    key: tuple[str, ...]  # transactions of claims, and a refusal
    parties: tuple[Party, ...]
    reader: Reader
    in_flight: frozenset[PointerInFlight]
    late_commits: frozenset[str]
    answers: frozenset[tuple[str, str]]


def touches(op: str, table: int) -> bool:
    """A commit to one table is named after it, one to both has a bare name."""
    return op.isalpha() or op.endswith(str(table))


def outcome(catalog: Catalog, transaction: str) -> str:
    for decided, verdict in catalog.outcomes:
        if decided == transaction:
            return verdict
    return ""


def effective(catalog: Catalog, table: int) -> Ops:
    """What a table holds at this moment, seen with its transaction's outcome in one look."""
    head = catalog.chains[table][-1]
    return resolve(head, outcome(catalog, head.transaction))


def resolve(pointer: Pointer, verdict: str) -> Ops:
    if not pointer.transaction or verdict == COMMITTED:
        return pointer.ops
    return pointer.previous


def append(catalog: Catalog, table: int, number: int, pointer: Pointer) -> Catalog:
    """Put-if-absent of one number: nothing happens where it is taken."""
    chain = catalog.chains[table]
    if number != len(chain):
        return catalog
    longer = (*chain, pointer)
    chains = (longer, catalog.chains[1]) if table == 0 else (catalog.chains[0], longer)
    in_flight = frozenset(
        waiting for waiting in catalog.in_flight if waiting.number >= _height(chains, waiting)
    )
    return catalog._replace(chains=chains, in_flight=in_flight)


def _height(chains: tuple[tuple[Pointer, ...], ...], waiting: PointerInFlight) -> int:
    return len(chains[waiting.table])


def decide(catalog: Catalog, transaction: str, verdict: str, *, overwrite: bool) -> Catalog:
    if outcome(catalog, transaction):
        if not overwrite:
            return catalog
        earlier = {decided for decided in catalog.outcomes if decided[0] == transaction}
        catalog = catalog._replace(outcomes=catalog.outcomes - earlier)
    outcomes = catalog.outcomes | {(transaction, verdict)}
    late_commits = catalog.late_commits if overwrite else catalog.late_commits - {transaction}
    return catalog._replace(outcomes=outcomes, late_commits=late_commits)


def answer(catalog: Catalog, op: str, status: str) -> Catalog:
    return catalog._replace(answers=catalog.answers | {(op, status)})
