"""Where a table may be, and which other locations its metadata may name.

A table has its own folder: in the warehouse under its id, or in a declared location. Every location
that its metadata names is checked here before anything is written, read or covered by a credential.
What is allowed is compared as it is written, since engines take a location as it is; what is kept out
of the store's root is compared as the most lenient reader would see it. A declared location may contain
the root: inside the root only the warehouse can be reached.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from arco.catalog.location import (
    canonical,
    check_escapes,
    check_text,
    managed_location,
    overlap,
    undeclared,
)
from arco.core.errors import Invalid
from arco.core.json import Json
from arco.iceberg.engine.shape import member

WAREHOUSE = "warehouse/"
LOCAL = "file://"

_SCOPE = re.compile(r"tenant=[^/]+/workspace=[^/]+/\Z")

METADATA_PATH = "write.metadata.path"
PATHS = (METADATA_PATH, "write.data.path", "write.object-storage.path", "write.folder-storage.path")
CODEC = "write.metadata.compression-codec"
_RESERVED = "arco."
_SUFFIXES = {"none": ".metadata.json", "gzip": ".gz.metadata.json"}
_NO_IDS: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ResolvedLocation:
    """A location, resolved to the warehouse or to a declared location."""

    declared: str | None  # the declared location that contains it; None for the warehouse
    key: str  # its path below the declared location or the workspace
    normalized: str  # equal locations have equal texts, with a closing slash


class LocationResolver:
    """Resolves locations in the workspace at `root_url` and in the declared locations."""

    def __init__(self, root_url: str, declared: Iterable[str]) -> None:
        if not root_url.endswith("/"):
            raise Invalid("the root of a workspace is a URL with a closing slash")
        self.root = root_url
        self.store_root = _SCOPE.sub("", root_url)  # closes other workspaces, too
        # The longest first: a nested location has its own rights.
        self.declared = tuple(sorted({canonical(each) for each in declared}, key=len, reverse=True))

    def find(self, location: str) -> ResolvedLocation:
        """Resolve `location`; `Invalid`, with what to do, if it may not be used."""
        normalized = self._spell(location)
        if normalized.startswith(self.root):
            key = normalized.removeprefix(self.root)[:-1]
            if not key.startswith(WAREHOUSE):
                raise _not_a_table()
            return ResolvedLocation(None, key, normalized)
        if overlap(normalized, self.store_root):
            raise _not_a_table()
        for declared in self.declared:
            if normalized.startswith(declared):
                return ResolvedLocation(
                    declared, normalized.removeprefix(declared)[:-1], normalized
                )
        raise undeclared(location)

    def _spell(self, location: str) -> str:
        if location.startswith(self.root):
            # The root is written by Arco itself, and may have a scheme that no engine reads.
            check_text(location)
            check_escapes("/" + location.removeprefix(self.root))
            return location.rstrip("/") + "/"
        return canonical(LOCAL + location if location.startswith("/") else location)


def _not_a_table() -> Invalid:
    return Invalid("this location is reserved for Arco; omit `location`, and Arco chooses one")


@dataclass(frozen=True)
class TableLocation:
    """A table's location: as engines see it, and as the catalog stores it."""

    url: str
    stored: str
    managed: bool


class Locations:
    """The location rules of the workspace at `root_url` with its declared locations."""

    def __init__(self, root_url: str, allowed: Sequence[str]) -> None:
        self._resolver = LocationResolver(root_url, allowed)

    def managed(self, table_id: str) -> str:
        """The location of a table whose request names none."""
        return (self._resolver.root + managed_location(table_id)).rstrip("/")

    def table_location(
        self, location: str, *, table_id: str, extra_owner_ids: frozenset[str] = _NO_IDS
    ) -> TableLocation:
        """The location of table `table_id` if it may be at `location`, else `Invalid`.

        In the warehouse that is the folder of its id, or of one of `extra_owner_ids`: that of a staged
        create, or of a dropped table that is registered again.
        """
        resolved, url = self._resolver.find(location), location.rstrip("/")
        if resolved.declared is not None:
            return TableLocation(url, resolved.normalized, managed=False)
        folder = resolved.key.removeprefix(WAREHOUSE)
        if folder != table_id and folder not in extra_owner_ids:
            raise Invalid(
                f"{location} is not the location of this table: omit `location`, and Arco chooses one"
            )
        return TableLocation(url, managed_location(folder), managed=True)

    def stored(self, location: str) -> str:
        """A location as the catalog stores it."""
        resolved = self._resolver.find(location)
        return resolved.normalized if resolved.declared is not None else f"{resolved.key}/"

    def is_declared(self, location: str) -> bool:
        """Whether a location is in a declared location, and not in the warehouse."""
        try:
            return self._resolver.find(location).declared is not None
        except Invalid:
            return False

    def is_within(self, location: str, folder: str) -> bool:
        """Whether a location is `folder` or below it; False for one that may not be used."""
        try:
            return self._resolver.find(location).normalized.startswith(
                self._resolver.find(folder).normalized
            )
        except Invalid:
            return False

    def owner(self, location: str) -> str | None:
        """The id of the warehouse folder that contains `location`; None outside the warehouse."""
        resolved = self._resolver.find(location)
        if resolved.declared is not None:
            return None
        return resolved.key.removeprefix(WAREHOUSE).partition("/")[0]

    def check_inside(self, location: str, table_location: str) -> None:
        """`Invalid` unless `location` is in the table's location or in a declared one."""
        self._inside(location, table_location)

    @staticmethod
    def check_properties(keys: Iterable[str]) -> None:
        """`Invalid` if a caller may not set or remove one of these properties."""
        for key in keys:
            if key.strip().casefold().startswith(_RESERVED):
                raise Invalid(f"properties that begin with {_RESERVED} are reserved: {key}")

    def check_paths(self, properties: Mapping[str, Json], table_location: str) -> None:
        """`Invalid` if properties send files to a forbidden location."""
        for key in PATHS:
            if key in properties:
                resolved = self._inside(_text(properties[key], key), table_location)
                if key == METADATA_PATH:
                    self._check_metadata_folder(resolved, table_location)
        if CODEC in properties:
            _suffix(properties[CODEC])

    def check_metadata(self, metadata: Mapping[str, Json], table_location: str) -> None:
        """`Invalid` if metadata from a client or a file names forbidden locations."""
        self.check_paths(_map(metadata, "properties"), table_location)
        for list_name in ("statistics", "partition-statistics"):
            for each in _list(metadata, list_name):
                self._inside(_text(member(each, "statistics-path"), list_name), table_location)

    def check_updates(
        self,
        updates: Sequence[Mapping[str, Json]],
        base_location: str | None,
        *,
        is_create: bool = False,
        may_move: bool = False,
        table_id: str = "",
        extra_owner_ids: frozenset[str] = _NO_IDS,
    ) -> str:
        """The table's location after `updates`, or `Invalid` if they name a forbidden location.

        An existing table keeps its location, or, if it `may_move`, moves to a declared one.
        """
        location = base_location or self.managed(table_id)
        for update in updates:
            if update.get("action") != "set-location":
                continue
            new_location = _text(update.get("location"), "location").rstrip("/")
            if is_create:
                location = self.table_location(
                    new_location, table_id=table_id, extra_owner_ids=extra_owner_ids
                ).url
            elif new_location != location.rstrip("/"):
                location = self._moved(location, new_location, may_move=may_move)
        for update in updates:
            self._check_update(update, location)
        return location

    def metadata_file(
        self, table_location: str, properties: Mapping[str, Json], number: int, uuid: str
    ) -> str:
        """The location of a table's metadata file `number`, by the table's properties."""
        folder = f"{table_location.rstrip('/')}/metadata"
        if METADATA_PATH in properties:
            # Checked when it was set, but the declared locations may have changed since.
            self.check_paths({METADATA_PATH: properties[METADATA_PATH]}, table_location)
            folder = _text(properties[METADATA_PATH], METADATA_PATH).rstrip("/")
        return f"{folder}/{number:05d}-{uuid}{_suffix(properties.get(CODEC, 'none'))}"

    def _moved(self, location: str, new_location: str, *, may_move: bool) -> str:
        if not may_move or self._resolver.find(new_location).declared is None:
            raise Invalid(
                f"the location of a table cannot change: it is {location}, and the update sets "
                f"{new_location}; create another table there, and copy the rows"
            )
        return new_location

    def _check_update(self, update: Mapping[str, Json], table_location: str) -> None:
        action = update.get("action")
        if action == "set-properties":
            # Older clients send `updated` and `removed`.
            for field in ("updates", "updated"):
                values = _map(update, field)
                self.check_properties(values)
                self.check_paths(values, table_location)
        elif action == "remove-properties":
            for field in ("removals", "removed"):
                self.check_properties(_text(each, field) for each in _list(update, field))
        elif action in ("set-statistics", "set-partition-statistics"):
            path = member(update.get(str(action).removeprefix("set-")), "statistics-path")
            self._inside(_text(path, "statistics-path"), table_location)
        elif action == "add-snapshot":
            self._check_snapshot(update.get("snapshot"), table_location)

    def _check_snapshot(self, snapshot: Json, table_location: str) -> None:
        path, inline = member(snapshot, "manifest-list"), member(snapshot, "manifests")
        if path is not None:
            self._inside(_text(path, "manifest-list"), table_location)
        if isinstance(inline, list):  # format version 1 may have no manifest list
            for each in inline:
                self._inside(_text(each, "each of manifests"), table_location)

    def _inside(self, location: str, table_location: str) -> ResolvedLocation:
        resolved = self._resolver.find(location)
        if resolved.declared is not None:
            return resolved
        own = self._resolver.find(table_location)
        if not resolved.normalized.startswith(own.normalized):
            raise Invalid(
                f"{location} is not in the table's location {table_location}: use a folder below it, "
                "or below a location that was declared with --allow-location"
            )
        return resolved

    def _check_metadata_folder(self, resolved: ResolvedLocation, table_location: str) -> None:
        """In the warehouse the API may write metadata only into a table's metadata folder (law 4)."""
        own = self._resolver.find(table_location)
        if resolved.declared is None and not resolved.normalized.startswith(
            f"{own.normalized}metadata/"
        ):
            raise Invalid(
                f"{METADATA_PATH} in the table's location must be {table_location.rstrip('/')}/metadata or "
                "a folder below it: omit it, or use a location that was declared with --allow-location"
            )


def _suffix(codec: Json) -> str:
    suffix = _SUFFIXES.get(_text(codec, CODEC).lower())
    if suffix is None:
        raise Invalid(f"{CODEC} is none or gzip, not {codec}")
    return suffix


def _text(value: Json, label: str) -> str:
    if not isinstance(value, str):
        raise Invalid(f"{label} is not text")
    return value


def _map(holder: Mapping[str, Json], name: str) -> dict[str, Json]:
    value = holder.get(name)
    if value is not None and not isinstance(value, dict):
        raise Invalid(f"{name} is no map")
    return value or {}


def _list(holder: Mapping[str, Json], name: str) -> list[Json]:
    value = holder.get(name)
    if value is not None and not isinstance(value, list):
        raise Invalid(f"{name} is no list")
    return value or []
