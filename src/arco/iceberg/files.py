"""Table files: one door to them, by their absolute locations.

It opens on the warehouse of our own workspace and on the places that were declared, and on nothing else,
whatever a table's metadata say: a place that is declared no more is closed at once. A location is text
that is taken as it stands; see `territory`.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from arco.core.errors import Denied, Invalid, NotFound
from arco.iceberg.location import LOCAL, Spot, Territory
from arco.storage.backend import Meta
from arco.storage.outside import Outside, make_folders
from arco.storage.roles import Role
from arco.storage.store import Store

_FOLDERS = ("metadata", "data")
_SPOTS = 4_096  # whose places are remembered


class TableFiles:
    """Files of tables, wherever they are.

    `outside` holds the declared places by their spelling with a closing slash. Only with a `janitor` can
    files be deleted and listed.
    """

    def __init__(
        self,
        store: Store,
        root_url: str,
        outside: Mapping[str, Outside],
        *,
        janitor: Store | None = None,
    ) -> None:
        self._store = store
        self._janitor = janitor
        self._outside = dict(outside)
        self._territory = Territory(root_url, outside)
        self._spot = lru_cache(_SPOTS)(self._territory.find)
        if unspelled := self._outside.keys() - set(self._territory.declared):
            raise Invalid(f"not the one spelling of a place: {', '.join(sorted(unspelled))}")

    @property
    def can_delete(self) -> bool:
        """Whether this process may remove files."""
        return self._janitor is not None

    def is_local(self, location: str) -> bool:
        """Whether `location` is on the disk of this machine."""
        return self._find(location).spelled.startswith(LOCAL)

    async def read(self, location: str) -> bytes:
        """All bytes of a file, or `NotFound`."""
        spot = self._find(location)
        try:
            if spot.declared is None:
                return await self._store.get(spot.key)
            return await self._outside[spot.declared].get(spot.key)
        except NotFound as missing:
            raise NotFound(f"there is no file {location}") from missing

    async def exists(self, location: str) -> bool:
        """Whether there is such a file."""
        spot = self._find(location)
        if spot.declared is not None:
            return await self._outside[spot.declared].exists(spot.key)
        try:
            await self._store.head(spot.key)
        except NotFound:
            return False
        return True

    async def create(self, location: str, body: bytes) -> None:
        """Put if absent, durable on return; `Conflict` if another is there, `Unknown` if unclear."""
        spot = self._find(location)
        if spot.declared is None:
            await self._store.create(spot.key, body)
        else:
            await self._outside[spot.declared].create(spot.key, body)

    async def delete(self, location: str) -> None:
        """Remove a file; removing what is not there is fine."""
        spot, janitor = self._find(location), self._cleaner()
        if spot.declared is None:
            await janitor.delete(spot.key)
        else:
            await self._outside[spot.declared].seen_by(Role.JANITOR).delete(spot.key)

    async def list_below(self, location: str) -> AsyncIterator[Meta]:
        """The files below a folder, each under its absolute location, spelled as the folder is."""
        spot, janitor = self._find(location), self._cleaner()
        below = f"{spot.key}/" if spot.key else ""
        if spot.declared is None:
            found = janitor.list(below)
        else:
            found = self._outside[spot.declared].seen_by(Role.JANITOR).list(below)
        folder = location.rstrip("/")
        async for meta in found:
            yield replace(meta, key=f"{folder}/{meta.key.removeprefix(below)}")

    async def make_folders(self, table_location: str) -> None:
        """Make `metadata/` and `data/` where a table lies on the disk: some engines do not make them."""
        spot = self._find(table_location)
        if not spot.spelled.startswith(LOCAL):
            return
        top = self._territory.store_root if spot.declared is None else spot.declared
        table = spot.spelled.removeprefix(top)
        root, folders = Path(top.removeprefix(LOCAL)), [table + each for each in _FOLDERS]
        await self._store.runtime.tasks.in_thread(lambda: make_folders(root, folders))

    def _cleaner(self) -> Store:
        if self._janitor is None:
            raise Denied("this process removes no table files: the janitor does")
        return self._janitor

    def _find(self, location: str) -> Spot:
        try:
            return self._spot(location)
        except Invalid as refused:
            raise Denied(str(refused)) from refused
