"""Neighbours: whether another table lies where one is to be, or has been.

The catalog decides who has a place, and only after the first file is written (P31). Whoever looks here
before that writes nothing into the place of another; before files are removed it is the only look.
"""

from collections.abc import Collection

from arco.catalog.location import managed_by, place_name
from arco.iceberg.desk import Desk


async def is_taken(desk: Desk, location: str, own_ids: Collection[str]) -> bool:
    """Whether a table with none of these ids lies at `location`, in it or around it."""
    return await is_place_taken(desk, desk.locations.stored(location), own_ids)


async def is_place_taken(desk: Desk, stored: str, own_ids: Collection[str]) -> bool:
    """The same for a location as the catalog keeps it."""
    place, snapshot = place_name(stored), await desk.reader.head()
    others = [found.row.table_id for found in await snapshot.places_around(place)]
    others += [maker for maker in [managed_by(place)] if maker is not None]
    for other in others:
        if other not in own_ids and await snapshot.is_held(other):
            return True
    return False
