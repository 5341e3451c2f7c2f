"""Places: a table of a format that owns its files lies alone.

`places` tells where tables lie, or have lain before they moved; one at the place that follows from its own
id has no row, since nobody else can lie there but a table that was made elsewhere. A dropped table holds no
place. One in a dropped schema does: it comes back with the schema, and nobody asks then what is free. A
table has a row for its location, and one for each other path that it may write to.
"""

from collections.abc import Sequence

import msgspec

from arco.catalog.decision import DecisionContext, creation_fields, updated
from arco.catalog.location import managed_by, place_name
from arco.catalog.lookup import Lookup
from arco.catalog.model import PlaceRow, TableFormat, TableRow
from arco.core.errors import Conflict

# Tables of other formats may be views of the same files.
_ALONE = frozenset({TableFormat.ICEBERG})


async def take_place(view: Lookup, row: TableRow, context: DecisionContext) -> tuple[PlaceRow, ...]:
    """What records where a table lies; `Conflict` if another lies there, in it or around it."""
    if row.location is None:
        return ()
    place = place_name(row.location)
    await _refuse_taken(view, row, place)
    if managed_by(place) == row.table_id:
        return ()
    known = await view.place(place, row.table_id)
    if known is not None:
        return (updated(known.row, context, dropped_at=None),)
    values = {"location": place, "table_id": row.table_id, "format": row.format}
    return (msgspec.convert(values | creation_fields(context), PlaceRow),)


async def take_places(
    view: Lookup, row: TableRow, paths: Sequence[str], context: DecisionContext
) -> tuple[PlaceRow, ...]:
    """The same for a table that keeps files at other paths, too; each place is recorded once."""
    taken: dict[str, PlaceRow] = {}
    for location in (row.location, *paths):
        there = msgspec.structs.replace(row, location=location)
        for place in await take_place(view, there, context):
            taken.setdefault(place.location, place)
    return tuple(taken.values())


async def refuse_taken_since(view: Lookup, row: TableRow) -> None:
    """`Conflict` if another lies by now where a dropped table has files."""
    for found in await view.places_of(row.table_id):
        await _refuse_taken(view, row, found.row.location)


async def leave_place(
    view: Lookup, row: TableRow, context: DecisionContext
) -> tuple[PlaceRow, ...]:
    """What records that a table lies nowhere any more."""
    if row.location is None or managed_by(row.location) == row.table_id:
        return ()
    known = await view.place(place_name(row.location), row.table_id)
    if known is None or known.row.dropped_at is not None:
        return ()
    return (updated(known.row, context, dropped_at=context.at),)


async def _refuse_taken(view: Lookup, row: TableRow, place: str) -> None:
    for found in await view.places_around(place):
        other = found.row
        if other.table_id == row.table_id or not _ALONE & {other.format, row.format}:
            continue
        if await view.is_held(other.table_id):
            raise _taken()
    maker = managed_by(place)
    if maker is not None and maker != row.table_id and await view.is_held(maker):
        raise _taken()


def _taken() -> Conflict:
    refusal = Conflict("another table lies at this location or path, in it or around it")
    refusal.add_note("Choose another location, or drop that table first.")
    return refusal
