"""Decisions on catalogs."""

import msgspec
from msgspec import UNSET

from arco.catalog.ddl import CreateCatalog, DropCatalog, UpdateCatalog
from arco.catalog.decision import (
    Context,
    Decision,
    amended,
    description,
    life,
    place_of,
    refuse_stale,
    touched,
)
from arco.catalog.location import check_location
from arco.catalog.lookup import Lookup
from arco.catalog.model import CatalogRow, ObjectRow
from arco.catalog.name import check_name, print_dotted
from arco.core.errors import AlreadyExists, NotEmpty


async def create_catalog(view: Lookup, request: CreateCatalog, context: Context) -> Decision:
    """A new catalog under a free name."""
    name = check_name(request.name, "catalog")
    root = request.storage_root
    values = {
        "catalog_id": context.new_id,
        "name": name,
        "storage_root": None if root is None else check_location(root, context.rules.own_roots),
    }
    await refuse_taken_catalog(view, name)
    row = msgspec.convert(values | description(request, context) | life(context), CatalogRow)
    return _decision("create_catalog", row, place_of(row))


async def update_catalog(view: Lookup, request: UpdateCatalog, context: Context) -> Decision:
    """A catalog described anew, or renamed."""
    found = await view.catalog(request.target.catalog)
    refuse_stale(request.expected, found)
    changes = amended(request, found.row)
    if request.name is not UNSET and request.name != found.row.name:
        changes["name"] = check_name(request.name, "catalog")
        await refuse_taken_catalog(view, request.name)
    return _decision("update_catalog", touched(found.row, context, **changes))


async def drop_catalog(view: Lookup, request: DropCatalog, context: Context) -> Decision:
    """A catalog gone, with all that lies in it if that is forced."""
    found = await view.catalog(request.target.catalog)
    refuse_stale(request.expected, found)
    if not request.force and await view.schemas(found.row.catalog_id, None, limit=1):
        raise NotEmpty(f"catalog {found.row.name!r} holds schemas")
    return _decision("drop_catalog", touched(found.row, context, dropped_at=context.at))


async def refuse_taken_catalog(view: Lookup, name: str) -> None:
    """`AlreadyExists` if a catalog of this name is there."""
    if await view.has_catalog(name):
        raise AlreadyExists(f"there is a catalog {name!r} already")


def _decision(operation: str, row: CatalogRow, *others: ObjectRow) -> Decision:
    return Decision(operation, row, print_dotted((row.name,)), (row, *others))
