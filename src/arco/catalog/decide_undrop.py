"""Decisions to bring back what was dropped.

What lay in a dropped container was never dropped itself, so it is there again with it. The name may have
been taken meanwhile; then another has to be given.
"""

from arco.catalog.ddl import Undrop
from arco.catalog.decide_catalog import refuse_taken_catalog
from arco.catalog.decide_schema import moved_below, refuse_taken_schema, schema_decision
from arco.catalog.decide_table import live_columns, refuse_taken_table, table_decision
from arco.catalog.decision import (
    AnyObject,
    Context,
    Decision,
    refuse_ruled,
    refuse_stale,
    touched,
)
from arco.catalog.lookup import Lookup
from arco.catalog.model import CatalogRow, SchemaRow, TableRow
from arco.catalog.name import check_name, print_dotted
from arco.catalog.place import take_place
from arco.core.errors import AlreadyExists, Conflict, NotFound


async def undrop(view: Lookup, request: Undrop, context: Context) -> Decision:
    """An object there again, within the retention."""
    found = await view.find(request.id, dropped=True)
    refuse_stale(request.expected, found)
    row = found.row
    if isinstance(row, TableRow):
        refuse_ruled(row.format, context)
    await refuse_impossible(view, row, context)
    name = row.name if request.name is None else check_name(request.name, "new")
    if isinstance(row, CatalogRow):
        await refuse_taken_catalog(view, name)
        catalog = touched(row, context, dropped_at=None, name=name)
        return Decision("undrop", catalog, print_dotted((name,)), (catalog,))
    if isinstance(row, SchemaRow):
        return await _undrop_schema(view, row, name, context)
    await refuse_taken_table(view, row.schema_id, name)
    table: TableRow = touched(row, context, dropped_at=None, name=name)
    place = await take_place(view, table, context)
    columns = await live_columns(view, table.table_id)
    return await table_decision(view, "undrop", table, columns, *place)


async def _undrop_schema(view: Lookup, row: SchemaRow, name: str, context: Context) -> Decision:
    await refuse_taken_schema(view, row.catalog_id, row.parent_id, name)
    parent = None if row.parent_id is None else await view.schema_by_id(row.parent_id)
    path = (*(() if parent is None else parent.row.path), name)
    schema = touched(row, context, dropped_at=None, name=name, path=path)
    below = [] if path == row.path else await moved_below(view, schema)
    return await schema_decision(view, "undrop", schema, *below)


async def refuse_impossible(view: Lookup, row: AnyObject, context: Context) -> None:
    """A refusal if an object is there, was dropped too long ago, or has nowhere to come back to."""
    container = await view.container(row)
    if container is not None and not await view.is_live(container.row):
        refusal = Conflict("what it lies in was dropped")
        refusal.add_note("Undrop that first.")
        raise refusal
    if row.dropped_at is None:
        needless = AlreadyExists("it was not dropped")
        needless.add_note("There is nothing to do.")
        raise needless
    if row.dropped_at < context.at - context.rules.retention:
        raise NotFound("it was dropped too long ago to be brought back")
