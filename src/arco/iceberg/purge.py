"""Purging: removing the files of a table that was dropped for good.

A table in our warehouse has a folder of its own, and all of it goes. In a declared place other things may
lie beside it, so there only files go that the table's metadata name, as far as they lie in its folder.
Metadata go last: whoever is interrupted finds again what is left.
"""

from collections.abc import AsyncIterator
from io import BytesIO
from typing import Any

import fastavro

from arco.core.errors import Denied, Invalid, NotFound
from arco.core.json import Json
from arco.iceberg.attempt import logged_files
from arco.iceberg.desk import Desk
from arco.iceberg.engine.metadata import Metadata, objects_of
from arco.iceberg.neighbours import is_taken
from arco.iceberg.refusal import Refused


async def purge(desk: Desk, table_id: str, metadata_location: str, *, dry_run: bool = False) -> int:
    """Remove the files of a dropped table; how many were there to be removed."""
    try:
        metadata = (await desk.load(metadata_location)).metadata
    except Refused:
        return 0  # the metadata are gone, so all before them is, too
    home = str(metadata["location"])
    if await is_taken(desk, home, [table_id]):
        return 0  # registered again before they were gone
    if desk.locations.owner(home) == table_id:
        files = _in_folder(desk, home, metadata_location)
    else:
        files = _named(desk, metadata, metadata_location)
    gone = 0
    async for location in files:
        if location.startswith(home.rstrip("/") + "/"):
            gone += 1
            if not dry_run:
                await desk.files.delete(location)
    desk.shelf.forget(metadata_location)
    return gone


async def _in_folder(desk: Desk, home: str, last: str) -> AsyncIterator[str]:
    async for meta in desk.files.list_below(home):
        if meta.key != last:
            yield meta.key
    yield last


async def _named(desk: Desk, metadata: Metadata, last: str) -> AsyncIterator[str]:
    """Data files, then manifests, then lists of them, then metadata."""
    seen: set[str] = set()
    for snapshot in objects_of(metadata, "snapshots"):
        manifests = await _manifests(desk, snapshot)
        for manifest in manifests:
            if manifest not in seen:
                seen.add(manifest)
                for entry in await _records(desk, manifest):
                    yield str(_field(entry.get("data_file"), "file_path"))
        for manifest in manifests:
            yield manifest
        yield str(snapshot.get("manifest-list"))
    for kind in ("statistics", "partition-statistics"):
        for each in objects_of(metadata, kind):
            yield str(each.get("statistics-path"))
    for earlier in sorted(logged_files(metadata)):
        yield earlier
    yield last


async def _manifests(desk: Desk, snapshot: dict[str, Json]) -> list[str]:
    listed = snapshot.get("manifest-list")
    if isinstance(listed, str):
        return [str(each.get("manifest_path")) for each in await _records(desk, listed)]
    inline = snapshot.get("manifests")  # the first version of the format has them here
    return [str(each) for each in inline] if isinstance(inline, list) else []


async def _records(desk: Desk, location: str) -> list[dict[str, Any]]:
    """The records of an Avro file; none if it is gone, or is none of ours to read."""
    try:
        raw = await desk.files.read(location)
    except (NotFound, Denied):
        return []
    try:
        return [each for each in fastavro.reader(BytesIO(raw)) if isinstance(each, dict)]
    except Exception as problem:  # whatever the reader stumbles over in bytes that anybody wrote
        raise Invalid(f"{location} is not an Avro file that can be read") from problem


def _field(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, dict) else None
