"""Deciding: from a request to a decision, by the kind of the request."""

from collections.abc import Awaitable, Callable
from typing import Any

from arco.catalog import ddl
from arco.catalog.decide_attached import (
    attach_table,
    attach_tables,
    move_table,
    project_columns,
    release_table,
    reserve_place,
    restore_table,
)
from arco.catalog.decide_catalog import create_catalog, drop_catalog, update_catalog
from arco.catalog.decide_column import add_columns, drop_column, update_column
from arco.catalog.decide_schema import create_schema, drop_schema, update_schema
from arco.catalog.decide_table import create_table, drop_table, update_table
from arco.catalog.decide_undrop import undrop
from arco.catalog.decision import Context, Decision
from arco.catalog.lookup import Lookup

_DECIDERS: dict[type[ddl.Ddl], Callable[[Lookup, Any, Context], Awaitable[Decision]]] = {
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


async def decide(view: Lookup, request: ddl.Ddl, context: Context) -> Decision:
    """What the request comes to in this view; a refusal is raised."""
    return await _DECIDERS[type(request)](view, request, context)
