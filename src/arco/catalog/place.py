"""The state table `places`: an Iceberg table shares its locations with no other table.

It records the present and former locations of tables, and each other path that a table may write to. A
table at the managed location of its id needs no row. A dropped table keeps no location; one in a dropped
schema does, because it comes back with the schema without another check.
"""

from collections.abc import Sequence

import msgspec

from arco.catalog.decision import DecisionContext, creation_fields, updated
from arco.catalog.location import managed_by, place_name
from arco.catalog.lookup import Lookup
from arco.catalog.model import PlaceRow, TableFormat, TableRow
from arco.core.errors import Conflict

# Tables of other formats may share files.
_EXCLUSIVE = frozenset({TableFormat.ICEBERG})


async def reserve_location(
    view: Lookup, row: TableRow, context: DecisionContext
) -> tuple[PlaceRow, ...]:
    """The row that records the location of a table; `Conflict` if it overlaps that of another."""
    if row.location is None:
        return ()
    location = place_name(row.location)
    await _refuse_overlap(view, row, location)
    if managed_by(location) == row.table_id:
        return ()
    recorded = await view.place(location, row.table_id)
    if recorded is not None:
        return (updated(recorded.row, context, dropped_at=None),)
    values = {"location": location, "table_id": row.table_id, "format": row.format}
    return (msgspec.convert(values | creation_fields(context), PlaceRow),)


async def reserve_locations(
    view: Lookup, row: TableRow, paths: Sequence[str], context: DecisionContext
) -> tuple[PlaceRow, ...]:
    """The rows for the location of a table and its other paths; each location is recorded once."""
    rows: dict[str, PlaceRow] = {}
    for location in (row.location, *paths):
        relocated = msgspec.structs.replace(row, location=location)
        for place_row in await reserve_location(view, relocated, context):
            rows.setdefault(place_row.location, place_row)
    return tuple(rows.values())


async def refuse_taken_since(view: Lookup, row: TableRow) -> None:
    """`Conflict` if another table has taken a location of a dropped table."""
    for stored in await view.places_of(row.table_id):
        await _refuse_overlap(view, row, stored.row.location)


async def release_location(
    view: Lookup, row: TableRow, context: DecisionContext
) -> tuple[PlaceRow, ...]:
    """The row that gives up the location of a table."""
    if row.location is None or managed_by(row.location) == row.table_id:
        return ()
    recorded = await view.place(place_name(row.location), row.table_id)
    if recorded is None or recorded.row.dropped_at is not None:
        return ()
    return (updated(recorded.row, context, dropped_at=context.at),)


async def _refuse_overlap(view: Lookup, row: TableRow, location: str) -> None:
    for stored in await view.places_around(location):
        other = stored.row
        if other.table_id == row.table_id or not _EXCLUSIVE & {other.format, row.format}:
            continue
        if await view.is_held(other.table_id):
            raise _overlap_conflict()
    owner_id = managed_by(location)
    if owner_id not in (None, row.table_id) and await view.is_held(owner_id):
        raise _overlap_conflict()


def _overlap_conflict() -> Conflict:
    refusal = Conflict("the location or path of this table overlaps with that of another table")
    refusal.add_note("Choose another location, or drop that table first.")
    return refusal
