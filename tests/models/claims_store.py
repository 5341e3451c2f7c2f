"""One idempotency key, the chain that its request would land on, and the handlers of the request.

A late create whose number is taken can do nothing any more (nothing is collected here), so it is
forgotten.
"""

from typing import Literal, NamedTuple

from tests.models.rules import ClaimRules

PAST, MINE, FOREIGN = "past", "the request", "a foreign request"
DONE, REFUSED = "2xx", "4xx"
OUTCOMES = (DONE, REFUSED)

Doing = Literal[
    "look up",
    "claim",
    "claimed?",
    "read",
    "check",
    "put",
    "landed?",
    "refuse",
    "refused?",
    "record",
    "gone",
]


class Handler(NamedTuple):
    doing: Doing = "look up"
    claim: int = 0  # the number that it wants or holds
    read_count: int = 0  # how much of the target it has read, if any
    valid: bool = True  # what that says about the request


class Create(NamedTuple):
    """Timed out, and still under way."""

    on_target: bool
    number: int
    body: str


class Key(NamedTuple):
    numbers: tuple[str, ...]  # claims, by the name of their handler, and outcomes
    single: str  # the outcome, where there is one object for it (weakened P10)
    target: tuple[str, ...]
    turns: int  # how often others have made the request invalid, or valid again
    handlers: tuple[Handler, ...]
    in_flight: frozenset[Create]
    answers: frozenset[str]


def outcome(key: Key) -> str:
    """The answer to a retry, if that is settled."""
    if key.single:
        return key.single
    return key.numbers[-1] if key.numbers and key.numbers[-1] in OUTCOMES else ""


def entry_above(key: Key, claim: int) -> str:
    return key.numbers[claim + 1] if len(key.numbers) > claim + 1 else key.single


def outcome_above(key: Key, claim: int, rules: ClaimRules) -> str:
    """The entry at the number where the holder of a claim would create its outcome."""
    return entry_above(key, claim) if rules.outcomes_numbered else key.single


def arrive(key: Key, create: Create, rules: ClaimRules) -> Key:
    if create.on_target:
        if create.number == len(key.target):
            key = key._replace(target=(*key.target, create.body))
    elif create.body in OUTCOMES and not rules.outcomes_numbered:
        key = key._replace(single=key.single or create.body)
    elif create.number == len(key.numbers):
        key = key._replace(numbers=(*key.numbers, create.body))
    if not key.in_flight:
        return key
    return key._replace(
        in_flight=frozenset(
            late_create for late_create in key.in_flight if may_land(key, late_create)
        )
    )


def may_land(key: Key, create: Create) -> bool:
    if create.on_target:
        return create.number >= len(key.target)
    if create.body in OUTCOMES and key.single:
        return False
    return create.number >= len(key.numbers)
