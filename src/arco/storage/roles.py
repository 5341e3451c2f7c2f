"""The permissions of each role, in one table (law 4).

`Store` enforces it at run time, `iam` renders it as cloud policies, and tests check it. A pattern is a path
below the workspace: `*` matches one part of a path, a closing `/*` everything below.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache


class Role(StrEnum):
    """An identity that a process runs under."""

    API = "api"
    COMPACTOR = "compactor"
    FLOW = "flow"
    READER = "reader"
    JANITOR = "janitor"


class Verb(StrEnum):
    """What a handle can do to a key."""

    GET = "get"
    LIST = "list"
    CREATE = "create"
    HINT = "hint"
    DELETE = "delete"
    SIGN = "sign"


@dataclass(frozen=True)
class Rule:
    """One role may do these verbs on these patterns."""

    role: Role
    verb: Verb
    patterns: tuple[str, ...]


EVERYTHING = "*"
PROBE = "_probe/*"  # where a process proves that the store honours put-if-absent

# A floor says what was collected, so only the janitor may create one, and no role may delete it: collected
# numbers would look as if they had never existed (P6).
FLOORS = "/floor/"

_CHANGES = frozenset({Verb.CREATE, Verb.HINT, Verb.DELETE})

PUBLISHED = ("manifests/*", "commits/*", "snapshots/*", "state/*")

RULES: tuple[Rule, ...] = (
    Rule(Role.API, Verb.GET, (EVERYTHING,)),
    Rule(
        Role.API,
        Verb.CREATE,
        (
            "ledger/*",
            "sequence/*",
            "locks/*",
            "_catalog/idempotency/*",
            "_catalog/iceberg_pointers/*",
            "_catalog/iceberg_doubts/*",
            "_catalog/transactions/*",
            "_catalog/delta_coordinator/*",
            "events/*",
            "warehouse/*/metadata/*",
            PROBE,
        ),
    ),
    Rule(
        Role.API,
        Verb.HINT,
        (
            "sequence/*/head.json",
            "locks/*/head.json",
            "locks/*/*.renewal.json",
            "_catalog/iceberg_pointers/*/head.json",
            "_catalog/iceberg_doubts/*/head.json",
            "_catalog/delta_coordinator/*/head.json",
        ),
    ),
    # For anti-entropy only: abandoned claims are found by a listing (law 6).
    Rule(Role.API, Verb.LIST, ("_catalog/idempotency/*",)),
    Rule(Role.API, Verb.SIGN, (*PUBLISHED, "warehouse/*")),
    Rule(Role.COMPACTOR, Verb.GET, (EVERYTHING,)),
    Rule(Role.COMPACTOR, Verb.LIST, ("ledger/*", "sequence/*")),
    Rule(Role.COMPACTOR, Verb.CREATE, (*PUBLISHED, "quarantine/*", PROBE)),
    Rule(Role.COMPACTOR, Verb.HINT, ("manifests/*/head.json",)),
    Rule(Role.FLOW, Verb.GET, (EVERYTHING,)),
    Rule(
        Role.FLOW,
        Verb.CREATE,
        (
            "ledger/*",
            "sequence/*",
            "_catalog/parquet_pointers/*",
            "_staging/*",
            "runs/*",
            "logs/*",
            "warehouse/*",
            PROBE,
        ),
    ),
    Rule(
        Role.FLOW,
        Verb.HINT,
        ("sequence/*/head.json", "_catalog/parquet_pointers/*/head.json", "leases/*"),
    ),
    Rule(Role.READER, Verb.GET, (*PUBLISHED, "quarantine/*")),  # all that manifests name (law 5)
    Rule(Role.JANITOR, Verb.GET, (EVERYTHING,)),
    Rule(Role.JANITOR, Verb.LIST, (EVERYTHING,)),
    Rule(Role.JANITOR, Verb.DELETE, (EVERYTHING,)),
    # Seals are segments, so the pattern is that of the ledger; floors are named by FLOORS.
    Rule(Role.JANITOR, Verb.CREATE, ("ledger/*", PROBE)),
    # The first is for the clock of the store (`store_now_ms`); anti-entropy rewrites hints of chains that
    # are far behind.
    Rule(
        Role.JANITOR,
        Verb.HINT,
        ("_probe/clock.json", "manifests/*/head.json", "sequence/*/head.json"),
    ),
)

# In external locations, which an operator has declared (--allow-location): anywhere below them.
EXTERNAL_VERBS: dict[Role, frozenset[Verb]] = {
    Role.API: frozenset({Verb.GET, Verb.CREATE}),
    Role.JANITOR: frozenset({Verb.GET, Verb.LIST, Verb.DELETE}),
}


@cache
def patterns(role: Role, verb: Verb) -> tuple[str, ...]:
    """All patterns on which `role` may do `verb`."""
    return tuple(
        p for rule in RULES if (rule.role, rule.verb) == (role, verb) for p in rule.patterns
    )


def may(role: Role, verb: Verb, key: str) -> bool:
    """Whether `role` may do `verb` on `key`, a path below the workspace."""
    if verb in _CHANGES and FLOORS in f"/{key}":
        return verb is Verb.CREATE and role is Role.JANITOR
    allowed = patterns(role, verb)
    return EVERYTHING in allowed or _matcher(allowed).fullmatch(key) is not None


def may_in_external_location(role: Role, verb: Verb) -> bool:
    """Whether `role` may do `verb` in an external location."""
    return verb in EXTERNAL_VERBS.get(role, frozenset())


@cache
def _matcher(allowed: tuple[str, ...]) -> re.Pattern[str]:
    """What matches any of some patterns; without patterns, nothing."""
    return re.compile("|".join(map(_expression, allowed)) or "(?!)", re.DOTALL)


def _expression(pattern: str) -> str:
    body, below = (pattern[:-2], "/.+") if pattern.endswith("/*") else (pattern, "")
    return re.escape(body).replace(r"\*", "[^/]+") + below
