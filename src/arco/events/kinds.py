"""Kinds: all events of Tier 2, with their payloads, examples and what becomes of them.

A version once declared here is read for ever: what changes in a way that old events do not fit gets a new
version beside the old one.
"""

from arco.core.errors import Invalid
from arco.events import (
    commit,
    execution,
    lineage,
    partition,
    partition_value,
    quality,
    quarantine,
    schedule,
    search,
    statistics,
    task,
)
from arco.events.quarantine import ANY_DOMAIN
from arco.events.told import EventKind
from arco.fold.tier2 import TIER2
from arco.ledger.envelope import EventTypes

__all__ = ["ALL_TYPES", "ANY_DOMAIN", "DOMAINS", "KINDS", "TYPES", "EventKind"]
__all__ += ["domain_of", "kind_of", "kinds_of"]

DOMAINS = tuple(TIER2)

KINDS: tuple[EventKind, ...] = (
    *execution.KINDS,
    *task.KINDS,
    *partition.KINDS,
    *partition_value.KINDS,
    *quality.KINDS,
    *lineage.KINDS,
    *statistics.KINDS,
    *schedule.KINDS,
    *commit.KINDS,
    *search.KINDS,
    *quarantine.KINDS,
)
TYPES = EventTypes(each.type for each in KINDS if not each.ours)  # what the door lets in
ALL_TYPES = EventTypes(each.type for each in KINDS)

_BY_NAME = {(each.name, each.version): each for each in KINDS}


def kind_of(name: str, version: int) -> EventKind:
    """The kind of an event, or `Invalid` with what is unknown about it."""
    ALL_TYPES.find(name, version)
    return _BY_NAME[(name, version)]


def domain_of(name: str) -> str:
    """Where events of this name are kept."""
    found = {each.domain for each in KINDS if each.name == name} - {ANY_DOMAIN}
    if not found:
        raise Invalid(f"no domain is the domain of event type {name!r}")
    return found.pop()


def kinds_of(domain: str) -> dict[tuple[str, int], EventKind]:
    """What a domain may hold, by name and version."""
    return {
        (each.name, each.version): each for each in KINDS if each.domain in (domain, ANY_DOMAIN)
    }
