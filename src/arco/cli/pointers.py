"""Resolving the pointers of a store's Iceberg tables, for `arco verify` and `arco doctor --deep`."""

from typing import TYPE_CHECKING

from arco.cli.locations import AllowedLocations
from arco.cli.place import Place

if TYPE_CHECKING:
    from arco.iceberg.pointer_check import PointerReport
    from arco.storage.store import Store

NEXT_STEP = (
    "Serve the store at the URL that it was written at, and pass every --allow-location that its "
    "servers have. A file that is missing there: restore it from a backup."
)


async def resolve_pointers(
    place: Place, store: "Store", locations: AllowedLocations, *, quiet: bool
) -> "PointerReport":
    """Look whether the metadata file of every Iceberg table is there; reads only."""
    from arco.cli.output import progress_bar
    from arco.iceberg.files import TableFiles
    from arco.iceberg.location import Locations
    from arco.iceberg.pointer_check import PointerCheck
    from arco.storage.roles import Role

    root = place.location_root()
    outside = locations.open(store.runtime, role=Role.JANITOR, fsync=not place.no_fsync)
    files = TableFiles(store, root, outside)
    check = PointerCheck(store, files, Locations(root, locations.urls()))
    with progress_bar("resolving Iceberg tables", quiet=quiet) as progress:
        return await check.run(progress)
