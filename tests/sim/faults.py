"""Faults: what may become of a request, and how likely each fate is.

A request is applied at one instant or not at all; around that instant everything may go wrong. Late
and doubled deliveries are bounded, because the retention of numbers rests on no delivery being later
than half of it.
"""

import random
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

from .world import MINUTE_MS, SECOND_MS

WRITES = ("create", "put", "delete")
LATEST_MS = 10.0 * MINUTE_MS


class Fate(Enum):
    """What becomes of one request."""

    FINE = "fine"
    LOST = "lost"  # never arrives
    REFUSED = "refused"  # an error, and not applied
    UNANSWERED = "unanswered"  # applied, and the answer is lost
    MISREPORTED = "misreported"  # applied, and answered with an error
    PHANTOM = "phantom"  # a create answered that the object exists, when it may not
    LATE = "late"  # arrives long after its sender has given up
    DOUBLED = "doubled"  # arrives, is answered, and arrives once more


@dataclass(frozen=True)
class Faults:
    """How likely each fate is, and how long the way is."""

    lost: float = 0.0
    refused: float = 0.0
    unanswered: float = 0.0
    misreported: float = 0.0
    phantom: float = 0.0
    late: float = 0.0
    doubled: float = 0.0
    fastest_ms: float = 5.0
    slowest_ms: float = 80.0

    def fate(self, rng: random.Random, verb: str) -> Fate:
        """Draw what becomes of a request."""
        draw = rng.random()
        if draw >= self._any:
            return Fate.FINE
        for fate in _FATES:
            draw -= getattr(self, fate.value)
            if draw < 0:
                return fate if _befits(fate, verb) else Fate.FINE
        return Fate.FINE

    def travel_ms(self, rng: random.Random) -> float:
        """One way to the store or back: mostly short, with a long tail."""
        return self.fastest_ms + (self.slowest_ms - self.fastest_ms) * rng.random() ** 8

    @cached_property
    def _any(self) -> float:
        return float(sum(getattr(self, kind) for kind in KINDS))

    def scaled(self, factor: float) -> "Faults":
        """The same mix, more or less often."""
        return replace(self, **{kind: getattr(self, kind) * factor for kind in KINDS})


_FATES = [fate for fate in Fate if fate is not Fate.FINE]
KINDS = [fate.value for fate in _FATES]

NONE = Faults()
MILD = Faults(
    lost=0.005,
    refused=0.02,
    unanswered=0.01,
    misreported=0.01,
    phantom=0.005,
    late=0.01,
    doubled=0.02,
    slowest_ms=2.0 * SECOND_MS,
)
HARSH = Faults(
    lost=0.03,
    refused=0.06,
    unanswered=0.05,
    misreported=0.05,
    phantom=0.03,
    late=0.05,
    doubled=0.05,
    slowest_ms=15.0 * SECOND_MS,
)
OUTAGE = Faults(lost=0.1, refused=0.9)


def lateness_ms(rng: random.Random) -> float:
    """How late a late delivery is: seconds and minutes alike."""
    return float(SECOND_MS * (LATEST_MS / SECOND_MS) ** rng.random())


def drawn(rng: random.Random) -> Faults:
    """The weather of one seed: some are calm, some stormy, some have one fault all the time."""
    kind = rng.random()
    if kind < 0.15:
        return NONE
    if kind < 0.5:
        return MILD.scaled(rng.uniform(0.5, 2.0))
    if kind < 0.85:
        return HARSH.scaled(rng.uniform(0.3, 1.2))
    return replace(MILD, **{rng.choice(KINDS): rng.uniform(0.1, 0.3)})


def _befits(fate: Fate, verb: str) -> bool:
    if fate is Fate.PHANTOM:
        return verb == "create"
    if fate in (Fate.LATE, Fate.DOUBLED):
        return verb in WRITES
    return True
