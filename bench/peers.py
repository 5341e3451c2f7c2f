"""Our Iceberg catalog and the peer, side by side on the same machine at the same time."""

import contextlib
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.load import Load, Plan, load
from bench.process import arco_up
from bench.reference import missing, reference
from bench.rest import Catalog

PEER = "Iceberg's own server"
CONNECTIONS = 16


@dataclass(frozen=True)
class Peers:
    """Both catalogs; the peer may be missing."""

    ours: Catalog
    theirs: Catalog | None

    @property
    def both(self) -> list[Catalog]:
        return [self.ours] if self.theirs is None else [self.ours, self.theirs]


@contextlib.contextmanager
def peers(place: Path) -> Iterator[Peers]:
    """Both with an empty namespace `db`; if there is no peer, a sentence says so."""
    with ExitStack() as stack:
        ours = Catalog(stack.enter_context(arco_up(place / "ours")), "/iceberg", "default")
        theirs, reason = None, missing()
        if reason is None:
            theirs = Catalog(stack.enter_context(reference(place / "theirs")))
        else:
            print(f"  {reason}", file=sys.stderr, flush=True)
        both = Peers(ours, theirs)
        for each in both.both:
            each.make_namespace("db")
        yield both


def by_turns(
    plans: list[tuple[Catalog, Plan]], *, rounds: int, warm_s: float = 1.0
) -> list[list[Load]]:
    """The loads of each catalog, measured by turns after a first try that does not count."""
    for catalog, plan in plans:
        load(catalog.server, msgspec.structs.replace(plan, seconds=warm_s))
    results: list[list[Load]] = [[] for _ in plans]
    for _ in range(rounds):
        for loads, (catalog, plan) in zip(results, plans, strict=True):
            loads.append(load(catalog.server, plan))
    return results
