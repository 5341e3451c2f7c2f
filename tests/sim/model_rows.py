"""What all rows of the model have in common."""

from datetime import datetime
from typing import Any

from msgspec import UNSET

from arco.catalog import ddl

Row = dict[str, Any]
Rows = dict[tuple[Any, ...], Row]


class Refused(Exception):
    """A request that cannot be carried out, with the code of the error."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def named(name: str) -> str:
    """`name`, unless nothing may be called so."""
    if not name or "/" in name:
        raise Refused("invalid")
    return name


def lived(actor: str, at: datetime) -> Row:
    """When and by whom something was made."""
    return {"created_at": at, "created_by": actor, "updated_at": at, "updated_by": actor}


def described(request: ddl.Description, actor: str) -> Row:
    """The columns that describe a new object."""
    return {
        "comment": request.comment,
        "properties": dict(request.properties),
        "tags": list(request.tags),
        "owner": actor if request.owner is None else request.owner,
    }


def amended(request: ddl.Amendment, row: Row) -> Row:
    """The columns that a description changes."""
    changes: Row = {}
    if request.comment is not UNSET:
        changes["comment"] = request.comment
    if request.properties is not UNSET:
        wanted = request.properties
        merged = {} if wanted is None else {**row.get("properties", {}), **wanted}
        changes["properties"] = {key: value for key, value in merged.items() if value is not None}
    if request.tags is not UNSET:
        changes["tags"] = list(request.tags)
    if request.owner is not UNSET:
        changes["owner"] = request.owner
    return changes


def plain(row: Row) -> Row:
    """A row without what says nothing: nulls and empty containers."""
    return {key: value for key, value in row.items() if value is not None and value not in ([], {})}
