"""Decisions on catalogs and schemas.

The row of a schema holds its full path, so a rename rewrites the rows of the schemas below it.
"""

import msgspec
from msgspec import UNSET

from arco.catalog.ddl import (
    CreateCatalog,
    CreateSchema,
    DropCatalog,
    DropSchema,
    UpdateCatalog,
    UpdateSchema,
)
from arco.catalog.decision import (
    Decision,
    DecisionContext,
    amended_fields,
    creation_fields,
    description_fields,
    object_row,
    refuse_stale,
    updated,
)
from arco.catalog.location import check_location
from arco.catalog.lookup import Lookup
from arco.catalog.model import AnyRow, CatalogRow, ObjectRow, SchemaRow
from arco.catalog.name import MAX_LEVELS, check_name, print_dotted
from arco.core.errors import AlreadyExists, Invalid, NotEmpty


async def create_catalog(
    view: Lookup, request: CreateCatalog, context: DecisionContext
) -> Decision:
    """Create a catalog under a free name."""
    name = check_name(request.name, "catalog")
    root = request.storage_root
    values = {
        "catalog_id": context.new_id,
        "name": name,
        "storage_root": None if root is None else check_location(root, context.rules.own_roots),
    }
    await refuse_taken_catalog(view, name)
    row = msgspec.convert(
        values | description_fields(request, context) | creation_fields(context), CatalogRow
    )
    return _catalog_decision("create_catalog", row, object_row(row))


async def update_catalog(
    view: Lookup, request: UpdateCatalog, context: DecisionContext
) -> Decision:
    """Rename a catalog, or change its description."""
    current = await view.catalog(request.target.catalog)
    refuse_stale(request.expected, current)
    changes = amended_fields(request, current.row)
    if request.name is not UNSET and request.name != current.row.name:
        changes["name"] = check_name(request.name, "catalog")
        await refuse_taken_catalog(view, request.name)
    return _catalog_decision("update_catalog", updated(current.row, context, **changes))


async def drop_catalog(view: Lookup, request: DropCatalog, context: DecisionContext) -> Decision:
    """Drop a catalog; with `force` also one that contains schemas."""
    current = await view.catalog(request.target.catalog)
    refuse_stale(request.expected, current)
    if not request.force and await view.schemas(current.row.catalog_id, None, limit=1):
        raise NotEmpty(f"catalog {current.row.name!r} contains schemas")
    return _catalog_decision("drop_catalog", updated(current.row, context, dropped_at=context.at))


async def refuse_taken_catalog(view: Lookup, name: str) -> None:
    """`AlreadyExists` if the name of a catalog is taken."""
    if await view.has_catalog(name):
        raise AlreadyExists(f"there is a catalog {name!r} already")


def _catalog_decision(operation: str, row: CatalogRow, *others: ObjectRow) -> Decision:
    return Decision(operation, row, print_dotted((row.name,)), (row, *others))


async def create_schema(view: Lookup, request: CreateSchema, context: DecisionContext) -> Decision:
    """Create a schema under a free name."""
    name = check_name(request.name, "schema")
    catalog = (await view.catalog(request.catalog)).row
    parent_id = None
    if request.parent:
        parent_id = (await view.schema_in(catalog.catalog_id, request.parent)).row.schema_id
    if len(request.parent) >= MAX_LEVELS:
        raise Invalid(f"schemas nest at most {MAX_LEVELS} levels deep")
    await refuse_taken_schema(view, catalog.catalog_id, parent_id, name)
    values = {
        "schema_id": context.new_id,
        "catalog_id": catalog.catalog_id,
        "parent_id": parent_id,
        "name": name,
        "path": (*request.parent, name),
    }
    row = msgspec.convert(
        values | description_fields(request, context) | creation_fields(context), SchemaRow
    )
    return await schema_decision(view, "create_schema", row, object_row(row))


async def update_schema(view: Lookup, request: UpdateSchema, context: DecisionContext) -> Decision:
    """Rename a schema, or change its description."""
    current = await view.schema(request.target)
    refuse_stale(request.expected, current)
    changes = amended_fields(request, current.row)
    if request.name is UNSET or request.name == current.row.name:
        return await schema_decision(
            view, "update_schema", updated(current.row, context, **changes)
        )
    name = check_name(request.name, "schema")
    await refuse_taken_schema(view, current.row.catalog_id, current.row.parent_id, name)
    path = (*current.row.path[:-1], name)
    row = updated(current.row, context, **changes, name=name, path=path)
    return await schema_decision(view, "update_schema", row, *await moved_below(view, row))


async def drop_schema(view: Lookup, request: DropSchema, context: DecisionContext) -> Decision:
    """Drop a schema; with `force` also one that contains schemas or tables."""
    current = await view.schema(request.target)
    refuse_stale(request.expected, current)
    if not request.force:
        await _refuse_not_empty(view, current.row)
    row = updated(current.row, context, dropped_at=context.at)
    return await schema_decision(view, "drop_schema", row)


async def moved_below(view: Lookup, row: SchemaRow) -> list[SchemaRow]:
    """The schemas below one whose path has changed, including dropped ones, with their new paths."""
    moved: list[SchemaRow] = []
    parents = [row]
    while parents:
        parent = parents.pop()
        for dropped in (False, True):
            for child in await view.schemas(parent.catalog_id, parent.schema_id, dropped=dropped):
                path = (*parent.path, child.row.name)
                moved.append(msgspec.structs.replace(child.row, path=path))
                parents.append(moved[-1])
    return moved


async def refuse_taken_schema(
    view: Lookup, catalog_id: str, parent_id: str | None, name: str
) -> None:
    """`AlreadyExists` if the name of a schema is taken in its parent."""
    if await view.has_schema(catalog_id, parent_id, name):
        raise AlreadyExists(f"there is a schema {name!r} already")


async def schema_decision(
    view: Lookup, operation: str, row: SchemaRow, *others: AnyRow
) -> Decision:
    """A decision whose object is a schema."""
    return Decision(operation, row, print_dotted(await view.levels(row)), (row, *others))


async def _refuse_not_empty(view: Lookup, row: SchemaRow) -> None:
    if await view.schemas(row.catalog_id, row.schema_id, limit=1):
        raise NotEmpty(f"schema {row.name!r} contains schemas")
    if await view.tables(row.schema_id, limit=1):
        raise NotEmpty(f"schema {row.name!r} contains tables")
