"""The decision on a request by its type, and the decision to undrop an object of any kind.

Objects in a dropped container were not dropped themselves, so they come back with it. If another object has
taken the name meanwhile, the request must give a new one.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from arco.catalog import ddl
from arco.catalog.ddl import Undrop
from arco.catalog.decide_attached import (
    attach_table,
    attach_tables,
    move_table,
    project_columns,
    release_table,
    reserve_place,
    restore_table,
)
from arco.catalog.decide_namespace import (
    create_catalog,
    create_schema,
    drop_catalog,
    drop_schema,
    moved_below,
    refuse_taken_catalog,
    refuse_taken_schema,
    schema_decision,
    update_catalog,
    update_schema,
)
from arco.catalog.decide_table import (
    add_columns,
    create_table,
    drop_column,
    drop_table,
    live_columns,
    refuse_taken_table,
    table_decision,
    update_column,
    update_table,
)
from arco.catalog.decision import (
    Decision,
    DecisionContext,
    refuse_routed,
    refuse_stale,
    refuse_undrop,
    updated,
)
from arco.catalog.lookup import Lookup
from arco.catalog.model import CatalogRow, SchemaRow, TableRow
from arco.catalog.name import check_name, print_dotted
from arco.catalog.place import reserve_location


async def undrop(view: Lookup, request: Undrop, context: DecisionContext) -> Decision:
    """Undrop an object within the retention."""
    current = await view.find(request.id, dropped=True)
    refuse_stale(request.expected, current)
    row = current.row
    if isinstance(row, TableRow):
        refuse_routed(row.format, context)
    await refuse_undrop(view, row, context)
    name = row.name if request.name is None else check_name(request.name, "new")
    if isinstance(row, CatalogRow):
        await refuse_taken_catalog(view, name)
        catalog = updated(row, context, dropped_at=None, name=name)
        return Decision("undrop", catalog, print_dotted((name,)), (catalog,))
    if isinstance(row, SchemaRow):
        return await _undrop_schema(view, row, name, context)
    await refuse_taken_table(view, row.schema_id, name)
    table: TableRow = updated(row, context, dropped_at=None, name=name)
    place_rows = await reserve_location(view, table, context)
    columns = await live_columns(view, table.table_id)
    return await table_decision(view, "undrop", table, columns, *place_rows)


async def _undrop_schema(
    view: Lookup, row: SchemaRow, name: str, context: DecisionContext
) -> Decision:
    await refuse_taken_schema(view, row.catalog_id, row.parent_id, name)
    parent = None if row.parent_id is None else await view.schema_by_id(row.parent_id)
    path = (*(() if parent is None else parent.row.path), name)
    schema = updated(row, context, dropped_at=None, name=name, path=path)
    below = [] if path == row.path else await moved_below(view, schema)
    return await schema_decision(view, "undrop", schema, *below)


_DECIDERS: dict[type[ddl.Ddl], Callable[[Lookup, Any, DecisionContext], Awaitable[Decision]]] = {
    ddl.CreateCatalog: create_catalog,
    ddl.UpdateCatalog: update_catalog,
    ddl.DropCatalog: drop_catalog,
    ddl.CreateSchema: create_schema,
    ddl.UpdateSchema: update_schema,
    ddl.DropSchema: drop_schema,
    ddl.CreateTable: create_table,
    ddl.UpdateTable: update_table,
    ddl.DropTable: drop_table,
    ddl.AddColumns: add_columns,
    ddl.UpdateColumn: update_column,
    ddl.DropColumn: drop_column,
    ddl.Undrop: undrop,
    ddl.AttachTable: attach_table,
    ddl.AttachTables: attach_tables,
    ddl.ReleaseTable: release_table,
    ddl.RestoreTable: restore_table,
    ddl.MoveTable: move_table,
    ddl.ReservePlace: reserve_place,
    ddl.ProjectColumns: project_columns,
}


async def decide(view: Lookup, request: ddl.Ddl, context: DecisionContext) -> Decision:
    """The decision on a request in this view; a refusal is raised."""
    return await _DECIDERS[type(request)](view, request, context)
