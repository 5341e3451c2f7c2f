"""Selects the snapshots that a query reads: one of each domain.

No snapshot spans two domains (P29): each has its own numbers. So a number or a commit id identifies a
snapshot only if the query reads one domain; statistics that are joined to its tables are then those of the
time at which that number was published. A time applies to all domains.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

from arco.catalog.reader import SnapshotReader, parse_as_of
from arco.catalog.snapshot import Snapshot
from arco.core.errors import Invalid, NotFound
from arco.fold.tier1 import DOMAIN


class SnapshotSelector:
    """Finds the snapshots of several domains."""

    def __init__(self, readers: Mapping[str, SnapshotReader]) -> None:
        self._readers = readers
        self._tasks = readers[DOMAIN].store.runtime.tasks

    async def snapshots(
        self, domains: Iterable[str], joined: Iterable[str], as_of: str | None
    ) -> dict[str, Snapshot]:
        """A snapshot of each domain that a query reads, and of each that is joined to its tables."""
        own = sorted(domains)
        others = sorted(set(joined) - set(own))
        if as_of is None or isinstance(parse_as_of(as_of), datetime):
            return await self._all(own, others, as_of)
        if len(own) > 1:
            raise Invalid(
                f"the query reads the domains {', '.join(own)}, and each has its own numbers: "
                "pass a time as as_of, or read the tables of one domain"
            )
        [domain] = own or [DOMAIN]
        snapshot = await self._readers[domain].at(as_of)
        time = None if snapshot.created_at is None else snapshot.created_at.isoformat()
        return {domain: snapshot, **await self._all([], others, time)}

    async def _all(
        self, own: list[str], joined: list[str], as_of: str | None
    ) -> dict[str, Snapshot]:
        snapshots = await self._tasks.gather(
            *(self._at(each, as_of) for each in own),
            *(self._at(each, as_of, joined=True) for each in joined),
        )
        return dict(zip([*own, *joined], snapshots, strict=True))

    async def _at(self, domain: str, as_of: str | None, *, joined: bool = False) -> Snapshot:
        reader = self._readers[domain]
        try:
            return await reader.at(as_of)
        except NotFound:
            # A domain of events is empty before its first manifest; the catalog is not. And a query does
            # not fail because the statistics of its tables are retained for a shorter time.
            if joined or (domain != DOMAIN and await reader.chain.floor() == 0):
                return reader.nothing
            raise


def parse_freshness(freshness: str | None, as_of: str | None) -> bool:
    """Whether a fresh read is wanted; `Invalid` for an unknown freshness, or a fresh read with `as_of`.

    The tables of the catalog are always fresh: a change is acknowledged after it is published.
    """
    if freshness not in (None, "published", "fresh"):
        raise Invalid(f"freshness is 'published' or 'fresh', not {freshness[:40]!r}")
    if freshness == "fresh" and as_of is not None:
        raise Invalid("as_of reads a published state: leave it out for a fresh read")
    return freshness == "fresh"
