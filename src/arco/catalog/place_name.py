"""Place names: locations in the spelling by which places are compared, and what follows from it.

Engines write one place in many ways. Two places overlap if and only if one place name begins with the
other, so that whoever lies around a place is found without a scan. A location below `warehouse/` is
relative to the workspace; it was made for the table whose id comes next, and is free once that is gone.
"""

from collections.abc import Sequence
from uuid import UUID

from arco.catalog.location import check_location, check_text, likeness, refuse_tricks
from arco.core.errors import Invalid

_WAREHOUSE = "warehouse/"
_HERE = "file:///"  # as hard to tell apart as the names of the most forgetful disk


def is_managed(location: str) -> bool:
    """Whether a location is relative to the workspace."""
    return location.startswith(_WAREHOUSE)


def check_attached(location: str, own_roots: Sequence[str]) -> str:
    """`location` in one spelling if a table that was made elsewhere may be there, else `Invalid`."""
    if not is_managed(location):
        return check_location(location, own_roots)
    check_text(location)
    refuse_tricks("/" + location)
    if not is_id(managed_by(location) or "") or "?" in location or "#" in location:
        raise Invalid("a location in the workspace is warehouse/, the id of a table, and a path")
    return location.rstrip("/") + "/"


def managed_by(location: str) -> str | None:
    """The id of the table that a location in the workspace was made for."""
    return location.removeprefix(_WAREHOUSE).split("/")[0] if is_managed(location) else None


def is_id(text: str) -> bool:
    """Whether a text can be the id of a table: a UUID in small letters."""
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def place_name(location: str) -> str:
    """The name of the place that a checked location means."""
    spelled = likeness(_HERE + location if is_managed(location) else location)
    return spelled.removeprefix(_HERE if is_managed(location) else "").rstrip("/") + "/"


def at_or_above(place: str) -> list[str]:
    """The names of a place and of all that contain it, outermost first."""
    scheme, mark, rest = place.rpartition("://")
    parts = rest.removesuffix("/").split("/")
    return [scheme + mark + "/".join(parts[:depth]) + "/" for depth in range(1, len(parts) + 1)]
