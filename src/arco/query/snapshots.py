"""The moment that a query is about: one snapshot of each domain that it reads.

No snapshot spans two domains (P29): each has its own numbers. So a number or a commit's id says which
moment is meant only where the query reads one domain; statistics that are joined to its tables are then
those of the time at which that number was published. A time means the same everywhere.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

from arco.catalog.as_of import parse_as_of
from arco.catalog.reader import SnapshotReader
from arco.catalog.snapshot import Snapshot
from arco.core.errors import Invalid, NotFound
from arco.fold.tier1 import DOMAIN


class SnapshotSelector:
    """Finds snapshots of several domains."""

    def __init__(self, readers: Mapping[str, SnapshotReader]) -> None:
        self._readers = readers
        self._tasks = readers[DOMAIN].store.runtime.tasks

    async def snapshots(
        self, domains: Iterable[str], joined: Iterable[str], as_of: str | None
    ) -> dict[str, Snapshot]:
        """A snapshot of each domain that a query is about, and of each that is joined to its tables."""
        own = sorted(domains)
        others = sorted(set(joined) - set(own))
        if as_of is None or isinstance(parse_as_of(as_of), datetime):
            return await self._all(own, others, as_of)
        if len(own) > 1:
            raise Invalid(
                f"the query reads the domains {', '.join(own)}, and each has numbers of its own: "
                "give as_of a time, or ask for the tables of one domain"
            )
        [domain] = own or [DOMAIN]
        snapshot = await self._readers[domain].at(as_of)
        then = None if snapshot.created_at is None else snapshot.created_at.isoformat()
        return {domain: snapshot, **await self._all([], others, then)}

    async def _all(
        self, own: list[str], joined: list[str], as_of: str | None
    ) -> dict[str, Snapshot]:
        found = await self._tasks.gather(
            *(self._at(each, as_of) for each in own),
            *(self._at(each, as_of, joined=True) for each in joined),
        )
        return dict(zip([*own, *joined], found, strict=True))

    async def _at(self, domain: str, as_of: str | None, *, joined: bool = False) -> Snapshot:
        reader = self._readers[domain]
        try:
            return await reader.at(as_of)
        except NotFound:
            # A domain that nobody had told of anything yet was empty; of the catalog this is not so. And
            # tables are not refused because their statistics are not kept for as long as they are.
            if joined or (domain != DOMAIN and await reader.chain.floor() == 0):
                return reader.nothing
            raise
