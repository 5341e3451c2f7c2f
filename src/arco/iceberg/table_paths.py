"""Paths where a table keeps files outside its location, and their reservation in the catalog.

Properties may send data and metadata to other declared locations, and statistics may be in any of them.
The catalog reserves such paths as it reserves locations, so no two tables share a folder. Files that an
engine writes for a commit, above all manifest lists, must be in locations of its own table.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from arco.catalog.change import change
from arco.catalog.ddl import ReservePlace
from arco.catalog.location import managed_by, place_name
from arco.catalog.snapshot import Snapshot
from arco.core.errors import Conflict, Invalid, LocationTaken, UnreservedPath
from arco.core.json import Json
from arco.iceberg.context import IcebergContext
from arco.iceberg.engine.metadata import Metadata, objects_of
from arco.iceberg.engine.shape import member
from arco.iceberg.errors import message_with_advice
from arco.iceberg.location import PATHS, Locations

_MAX_PATHS = 1_000  # of one table
_STATISTICS = ("statistics", "partition-statistics")
Update = Mapping[str, Json]


async def is_place_taken(context: IcebergContext, stored: str, own_ids: Collection[str]) -> bool:
    """Whether a table with another id has this location, or one inside or around it.

    The catalog decides which table gets a location, after the first file is written (P31). This check
    comes earlier, so that no file is written into another table's location; before files are deleted it
    is the only check.
    """
    location, snapshot = place_name(stored), await context.reader.head()
    others = [each.row.table_id for each in await snapshot.places_around(location)]
    others += [maker for maker in [managed_by(location)] if maker is not None]
    for other in others:
        if other not in own_ids and await snapshot.is_held(other):
            return True
    return False


@dataclass(frozen=True)
class PathChanges:
    """The paths of a commit, as the catalog stores them."""

    added: tuple[str, ...] = ()  # to reserve; if another table has one, the commit is refused
    kept_paths: tuple[str, ...] = ()  # of the base: reserved, unless older than reservations
    strays: tuple[str, ...] = ()  # manifest lists outside the locations that the metadata names

    @property
    def is_empty(self) -> bool:
        return not (self.added or self.kept_paths or self.strays)


NO_PATHS = PathChanges()


def paths_beside(locations: Locations, metadata: Metadata) -> tuple[str, ...]:
    """Every path outside its location that new metadata names, as the catalog stores it.

    Files of earlier snapshots count by their folders.
    """
    table_location, properties = str(metadata["location"]), _property_paths(metadata)
    folders = {each.rpartition("/")[0] for each in _manifest_lists(metadata)}
    paths = _beside(locations, [*properties, *_statistics(metadata), *folders], table_location)
    if len(paths) > _MAX_PATHS:
        raise Invalid(
            f"the table has files in {len(paths)} paths outside its location, and {_MAX_PATHS} are "
            "allowed: rewrite its metadata with a location that holds them"
        )
    return paths


def check_strays(locations: Locations, metadata: Metadata) -> None:
    """`Invalid` if a new table has manifest lists outside the locations that it names."""
    table_location, properties = str(metadata["location"]), _property_paths(metadata)
    for each in _outside(locations, _manifest_lists(metadata), [table_location, *properties]):
        raise Invalid(_stray(each))


def path_changes(
    locations: Locations, metadata: Metadata, base: Metadata, updates: Sequence[Update]
) -> PathChanges:
    """The paths that a commit adds to those of its base, and those that it keeps."""
    table_location, table_locations = (
        str(metadata["location"]),
        {str(each["location"]) for each in (metadata, base)},
    )
    before, after = _property_paths(base), _property_paths(metadata)
    added, written = after - before, list[str]()
    for update in updates:
        action = update.get("action")
        if action in ("set-statistics", "set-partition-statistics"):
            statistics = update.get(str(action).removeprefix("set-"))
            added |= set(_texts([member(statistics, "statistics-path")])) - before
        elif action == "add-snapshot":
            written += _listed_by(update.get("snapshot"))
    if not (added or after or written):
        return NO_PATHS
    kept_paths = set(_declared_beside(locations, before & after, table_location))
    return PathChanges(
        added=tuple(
            each for each in _beside(locations, added, table_location) if each not in kept_paths
        ),
        kept_paths=tuple(sorted(kept_paths)),
        strays=_outside(locations, written, [*table_locations, *before, *after]),
    )


async def reserve_paths(
    context: IcebergContext, table_id: str, changes: PathChanges, actor: str
) -> None:
    """Reserve the paths that a commit adds in the catalog, or refuse the commit.

    This depends on the catalog and not on the table's chain, so a refusal is raised and never stored (P12).
    """
    if changes.is_empty:
        return
    snapshot = context.reader.remembered() or await context.reader.head()
    missing = [
        path
        for path in (*changes.kept_paths, *changes.strays)
        if not await _is_reserved(snapshot, path, table_id)
    ]
    if missing:
        snapshot = await context.reader.head()
    for path in changes.strays:
        if path in missing and not await _is_reserved(snapshot, path, table_id):
            raise UnreservedPath(_stray(path))
    for path in changes.added:
        if not await _is_reserved(snapshot, path, table_id):
            await reserve_place(context, table_id, path, actor)
    for path in changes.kept_paths:
        if path not in missing or await is_place_taken(context, path, [table_id]):
            continue
        with suppress(LocationTaken):  # two tables have shared it since before reservations existed
            await reserve_place(context, table_id, path, actor)


async def reserve_place(context: IcebergContext, table_id: str, location: str, actor: str) -> None:
    """Reserve a location in the catalog for a table, or refuse the commit that needs it.

    `NotFound` if the table was dropped meanwhile.
    """
    try:
        await change(context.committer, ReservePlace(table_id=table_id, location=location), actor)
    except Conflict as conflict:
        raise LocationTaken(message_with_advice(conflict)) from conflict


async def _is_reserved(snapshot: Snapshot, path: str, table_id: str) -> bool:
    """Whether a table has reserved this path or one around it. Only a drop releases it."""
    location = place_name(path)
    return any(
        each.row.table_id == table_id and location.startswith(each.row.location)
        for each in await snapshot.places_around(location)
    )


def _beside(locations: Locations, paths: Iterable[str], table_location: str) -> tuple[str, ...]:
    """The paths that are not below `table_location`, as the catalog stores them."""
    stored = {
        locations.stored(path) for path in paths if not locations.is_within(path, table_location)
    }
    return tuple(sorted(stored))


def _declared_beside(
    locations: Locations, paths: Iterable[str], table_location: str
) -> tuple[str, ...]:
    """The same for paths that were checked earlier: some may not be declared any more."""
    return _beside(
        locations, [path for path in paths if locations.is_declared(path)], table_location
    )


def _outside(locations: Locations, files: Iterable[str], places: Iterable[str]) -> tuple[str, ...]:
    """The files that are below none of the locations, as the catalog stores them."""
    table_locations = list(places)
    return tuple(
        locations.stored(file)
        for file in files
        if not any(locations.is_within(file, table_location) for table_location in table_locations)
    )


def _stray(path: str) -> str:
    return (
        f"the manifest list {path.rstrip('/')} is in no location of this table: write it below the table's "
        "location, or below the folder that write.metadata.path names"
    )


def _property_paths(metadata: Metadata) -> set[str]:
    properties = metadata.get("properties")
    table_properties = properties if isinstance(properties, dict) else {}
    return set(_texts(table_properties.get(key) for key in PATHS))


def _statistics(metadata: Metadata) -> list[str]:
    statistics = [each for kind in _STATISTICS for each in objects_of(metadata, kind)]
    return _texts(each.get("statistics-path") for each in statistics)


def _manifest_lists(metadata: Metadata) -> list[str]:
    return [path for each in objects_of(metadata, "snapshots") for path in _listed_by(each)]


def _listed_by(snapshot: Json) -> list[str]:
    """The manifest list of a snapshot, or its manifests in format version 1."""
    inline = member(snapshot, "manifests")
    return _texts(
        [member(snapshot, "manifest-list"), *(inline if isinstance(inline, list) else [])]
    )


def _texts(values: Iterable[Json]) -> list[str]:
    return [each for each in values if isinstance(each, str)]
