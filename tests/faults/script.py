"""The fault script: which requests go wrong, how, and how often.

A test holds the script and changes it while the server runs on another thread, so that every
method takes the lock. Chance comes from one seeded generator: the same seed and the same order
of requests give the same faults.
"""

import random
import re
import threading
from enum import StrEnum

import msgspec

from tests.faults.operation import Operation, Verb


class Fault(StrEnum):
    """What goes wrong. "Before" means that nothing is applied, "after" that it was."""

    UNAVAILABLE_BEFORE = "unavailable_before"
    ERROR_AFTER = "error_after"
    DROP_BEFORE = "drop_before"
    DROP_AFTER = "drop_after"
    CONFLICT_NOTHING_STORED = "conflict_nothing_stored"
    THROTTLED = "throttled"
    SLOW_DOWN = "slow_down"
    NOT_IMPLEMENTED = "not_implemented"
    SLOW_BODY = "slow_body"
    DUPLICATE_DELIVERY = "duplicate_delivery"
    HANG = "hang"


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fault and the requests that it befalls; an absent field matches everything."""

    fault: Fault
    verb: Verb | None = None
    key: str | None = None
    key_regex: str | None = None
    # Of the requests that match, the first `skip` pass unharmed and the next `times` are struck.
    skip: int = 0
    times: int | None = None
    probability: float = 1.0
    # slow_body: the pause between two pieces of the answer, and into how many it is cut.
    pause_ms: int = 50
    pieces: int = 8
    # hang: whether the request is applied before the silence.
    applied: bool = True
    # drop_*: end the connection by a reset (RST) rather than in order (FIN). Clients tell the
    # two apart: some retry a write after a FIN that they would not retry after a RST.
    reset: bool = False
    # For a PUT: what a rival creates under the same name right after the fault, unless something
    # is there. No request comes in between, however late those of the clients are.
    rival: bytes | None = None

    def matches(self, operation: Operation) -> bool:
        if self.verb is not None and operation.verb is not self.verb:
            return False
        return any(self._matches_key(key) for key in operation.keys)

    def _matches_key(self, key: str) -> bool:
        if self.key is not None and self.key not in key:
            return False
        return self.key_regex is None or re.search(self.key_regex, key) is not None


class Modes(msgspec.Struct, kw_only=True):
    """How the whole server behaves, apart from single faults."""

    # A server that takes every write, whatever the condition: some stores do.
    ignore_conditions: bool = False
    # GCS's rule: more changes per second than this to one name are answered 429.
    writes_per_second_per_name: float | None = None
    # How many entries a page of a listing holds at most, for clients that cannot ask for fewer.
    page_limit: int = 1000


class Script:
    """The rules in force and the modes of the server. Safe to use from any thread."""

    def __init__(self, modes: Modes | None = None, seed: int = 0) -> None:
        self.modes = modes or Modes()
        self._lock = threading.Lock()
        self._rng = random.Random(seed)
        self._rules: list[Rule] = []
        self._matched: list[int] = []
        self._struck: list[int] = []

    def add(self, *rules: Rule) -> None:
        """Put the rules in force, after those that already are."""
        with self._lock:
            self._rules.extend(rules)
            self._matched.extend(0 for _ in rules)
            self._struck.extend(0 for _ in rules)

    def clear(self) -> None:
        """Take every rule out of force; the modes stay."""
        with self._lock:
            self._rules.clear()
            self._matched.clear()
            self._struck.clear()

    def reseed(self, seed: int) -> None:
        with self._lock:
            self._rng = random.Random(seed)

    def struck(self) -> list[tuple[Rule, int]]:
        """Each rule in force with the number of requests that it has befallen."""
        with self._lock:
            return list(zip(self._rules, self._struck, strict=True))

    def pick(self, operation: Operation) -> Rule | None:
        """The first rule that strikes this request, if one does; it counts as used."""
        with self._lock:
            for index, rule in enumerate(self._rules):
                if rule.matches(operation) and self._strikes(index, rule):
                    return rule
        return None

    def _strikes(self, index: int, rule: Rule) -> bool:
        self._matched[index] += 1
        if self._matched[index] <= rule.skip:
            return False
        if rule.times is not None and self._struck[index] >= rule.times:
            return False
        if rule.probability < 1.0 and self._rng.random() >= rule.probability:
            return False
        self._struck[index] += 1
        return True
