"""Decisions on schemas. A schema's row repeats all its levels, so a rename rewrites those below it."""

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
    amended,
    creation_fields,
    description,
    object_row,
    refuse_stale,
    updated,
)
from arco.catalog.location import check_location
from arco.catalog.lookup import Lookup
from arco.catalog.model import AnyRow, CatalogRow, ObjectRow, SchemaRow
from arco.catalog.name import MOST_LEVELS, check_name, print_dotted
from arco.core.errors import AlreadyExists, Invalid, NotEmpty


async def create_catalog(
    view: Lookup, request: CreateCatalog, context: DecisionContext
) -> Decision:
    """A new catalog under a free name."""
    name = check_name(request.name, "catalog")
    root = request.storage_root
    values = {
        "catalog_id": context.new_id,
        "name": name,
        "storage_root": None if root is None else check_location(root, context.rules.own_roots),
    }
    await refuse_taken_catalog(view, name)
    row = msgspec.convert(
        values | description(request, context) | creation_fields(context), CatalogRow
    )
    return _catalog_decision("create_catalog", row, object_row(row))


async def update_catalog(
    view: Lookup, request: UpdateCatalog, context: DecisionContext
) -> Decision:
    """A catalog described anew, or renamed."""
    found = await view.catalog(request.target.catalog)
    refuse_stale(request.expected, found)
    changes = amended(request, found.row)
    if request.name is not UNSET and request.name != found.row.name:
        changes["name"] = check_name(request.name, "catalog")
        await refuse_taken_catalog(view, request.name)
    return _catalog_decision("update_catalog", updated(found.row, context, **changes))


async def drop_catalog(view: Lookup, request: DropCatalog, context: DecisionContext) -> Decision:
    """A catalog gone, with all that lies in it if that is forced."""
    found = await view.catalog(request.target.catalog)
    refuse_stale(request.expected, found)
    if not request.force and await view.schemas(found.row.catalog_id, None, limit=1):
        raise NotEmpty(f"catalog {found.row.name!r} holds schemas")
    return _catalog_decision("drop_catalog", updated(found.row, context, dropped_at=context.at))


async def refuse_taken_catalog(view: Lookup, name: str) -> None:
    """`AlreadyExists` if a catalog of this name is there."""
    if await view.has_catalog(name):
        raise AlreadyExists(f"there is a catalog {name!r} already")


def _catalog_decision(operation: str, row: CatalogRow, *others: ObjectRow) -> Decision:
    return Decision(operation, row, print_dotted((row.name,)), (row, *others))


async def create_schema(view: Lookup, request: CreateSchema, context: DecisionContext) -> Decision:
    """A new schema under a free name."""
    name = check_name(request.name, "schema")
    catalog = (await view.catalog(request.catalog)).row
    parent_id = None
    if request.parent:
        parent_id = (await view.schema_in(catalog.catalog_id, request.parent)).row.schema_id
    if len(request.parent) >= MOST_LEVELS:
        raise Invalid(f"schemas nest at most {MOST_LEVELS} levels deep")
    await refuse_taken_schema(view, catalog.catalog_id, parent_id, name)
    values = {
        "schema_id": context.new_id,
        "catalog_id": catalog.catalog_id,
        "parent_id": parent_id,
        "name": name,
        "path": (*request.parent, name),
    }
    row = msgspec.convert(
        values | description(request, context) | creation_fields(context), SchemaRow
    )
    return await schema_decision(view, "create_schema", row, object_row(row))


async def update_schema(view: Lookup, request: UpdateSchema, context: DecisionContext) -> Decision:
    """A schema described anew, or renamed."""
    found = await view.schema(request.target)
    refuse_stale(request.expected, found)
    changes = amended(request, found.row)
    if request.name is UNSET or request.name == found.row.name:
        return await schema_decision(view, "update_schema", updated(found.row, context, **changes))
    name = check_name(request.name, "schema")
    await refuse_taken_schema(view, found.row.catalog_id, found.row.parent_id, name)
    path = (*found.row.path[:-1], name)
    row = updated(found.row, context, **changes, name=name, path=path)
    return await schema_decision(view, "update_schema", row, *await moved_below(view, row))


async def drop_schema(view: Lookup, request: DropSchema, context: DecisionContext) -> Decision:
    """A schema gone, with all that lies in it if that is forced."""
    found = await view.schema(request.target)
    refuse_stale(request.expected, found)
    if not request.force:
        await _refuse_full(view, found.row)
    row = updated(found.row, context, dropped_at=context.at)
    return await schema_decision(view, "drop_schema", row)


async def moved_below(view: Lookup, row: SchemaRow) -> list[SchemaRow]:
    """The schemas below one whose path has changed, dropped ones too, with their paths put right."""
    moved: list[SchemaRow] = []
    above = [row]
    while above:
        parent = above.pop()
        for dropped in (False, True):
            for child in await view.schemas(parent.catalog_id, parent.schema_id, dropped=dropped):
                path = (*parent.path, child.row.name)
                moved.append(msgspec.structs.replace(child.row, path=path))
                above.append(moved[-1])
    return moved


async def refuse_taken_schema(
    view: Lookup, catalog_id: str, parent_id: str | None, name: str
) -> None:
    """`AlreadyExists` if a schema of this name is there."""
    if await view.has_schema(catalog_id, parent_id, name):
        raise AlreadyExists(f"there is a schema {name!r} already")


async def schema_decision(
    view: Lookup, operation: str, row: SchemaRow, *others: AnyRow
) -> Decision:
    """A decision whose object is a schema."""
    return Decision(operation, row, print_dotted(await view.levels(row)), (row, *others))


async def _refuse_full(view: Lookup, row: SchemaRow) -> None:
    if await view.schemas(row.catalog_id, row.schema_id, limit=1):
        raise NotEmpty(f"schema {row.name!r} holds schemas")
    if await view.tables(row.schema_id, limit=1):
        raise NotEmpty(f"schema {row.name!r} holds tables")
