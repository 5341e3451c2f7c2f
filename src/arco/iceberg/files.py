"""Table files by their absolute locations: read, create, delete and list.

Access is limited to the workspace's warehouse and the declared locations, whatever a table's metadata
names: a location that is no longer declared is closed at once.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from arco.core.errors import Denied, Invalid, NotFound
from arco.iceberg.location import LOCAL, LocationResolver, ResolvedLocation
from arco.storage.backend import Meta
from arco.storage.external_location import ExternalLocation, make_folders
from arco.storage.roles import Role
from arco.storage.store import Store

_FOLDERS = ("metadata", "data")
_CACHED_LOCATIONS = 4_096  # locations whose resolution is cached


class TableFiles:
    """Files of tables, by location.

    `outside` holds the declared places by their spelling with a closing slash. Only with a `janitor` can
    files be deleted and listed.
    """

    def __init__(
        self,
        store: Store,
        root_url: str,
        outside: Mapping[str, ExternalLocation],
        *,
        janitor: Store | None = None,
    ) -> None:
        self._store = store
        self._janitor = janitor
        self._outside = dict(outside)
        self._resolver = LocationResolver(root_url, outside)
        self._resolve_cached = lru_cache(_CACHED_LOCATIONS)(self._resolver.find)
        if unspelled := self._outside.keys() - set(self._resolver.declared):
            raise Invalid(f"locations are not normalized: {', '.join(sorted(unspelled))}")

    @property
    def can_delete(self) -> bool:
        """Whether this process may delete files."""
        return self._janitor is not None

    def is_local(self, location: str) -> bool:
        """Whether `location` is on the disk of this machine."""
        return self._resolve(location).normalized.startswith(LOCAL)

    async def read(self, location: str) -> bytes:
        """The bytes of a file, or `NotFound`."""
        resolved = self._resolve(location)
        try:
            if resolved.declared is None:
                return await self._store.get(resolved.key)
            return await self._outside[resolved.declared].get(resolved.key)
        except NotFound as missing:
            raise NotFound(f"there is no file {location}") from missing

    async def exists(self, location: str) -> bool:
        """Whether the file exists."""
        resolved = self._resolve(location)
        if resolved.declared is not None:
            return await self._outside[resolved.declared].exists(resolved.key)
        try:
            await self._store.head(resolved.key)
        except NotFound:
            return False
        return True

    async def create(self, location: str, body: bytes) -> None:
        """Put if absent, durable on return; `Conflict` if a file exists, `Unknown` if unclear."""
        resolved = self._resolve(location)
        if resolved.declared is None:
            await self._store.create(resolved.key, body)
        else:
            await self._outside[resolved.declared].create(resolved.key, body)

    async def delete(self, location: str) -> None:
        """Delete a file; a missing file is fine."""
        resolved, janitor = self._resolve(location), self._cleaner()
        if resolved.declared is None:
            await janitor.delete(resolved.key)
        else:
            await self._outside[resolved.declared].as_role(Role.JANITOR).delete(resolved.key)

    async def list_below(self, location: str) -> AsyncIterator[Meta]:
        """The files below a folder, each under its absolute location, spelled as the folder is."""
        resolved, janitor = self._resolve(location), self._cleaner()
        below = f"{resolved.key}/" if resolved.key else ""
        if resolved.declared is None:
            listing = janitor.list(below)
        else:
            listing = self._outside[resolved.declared].as_role(Role.JANITOR).list(below)
        folder = location.rstrip("/")
        async for meta in listing:
            yield replace(meta, key=f"{folder}/{meta.key.removeprefix(below)}")

    async def make_folders(self, table_location: str) -> None:
        """Create `metadata/` and `data/` of a table on a local disk: some engines need them."""
        resolved = self._resolve(table_location)
        if not resolved.normalized.startswith(LOCAL):
            return
        top = self._resolver.store_root if resolved.declared is None else resolved.declared
        table = resolved.normalized.removeprefix(top)
        root, folders = Path(top.removeprefix(LOCAL)), [table + each for each in _FOLDERS]
        await self._store.runtime.tasks.in_thread(lambda: make_folders(root, folders))

    def _cleaner(self) -> Store:
        if self._janitor is None:
            raise Denied("this process may not delete table files: run garbage collection")
        return self._janitor

    def _resolve(self, location: str) -> ResolvedLocation:
        try:
            return self._resolve_cached(location)
        except Invalid as refused:
            raise Denied(str(refused)) from refused
