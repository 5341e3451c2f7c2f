"""Table names: users write `schema.table`, Arco stores `catalog.schema.table`."""

from arco.catalog.name import parse_dotted, print_dotted
from arco.core.errors import Invalid

DEFAULT_CATALOG = "default"


def qualified_name(name: str) -> str:
    """`catalog.schema.table` for a name of two or three levels."""
    parts = parse_dotted(name)
    if len(parts) == 2:
        parts = (DEFAULT_CATALOG, *parts)
    if len(parts) != 3:
        raise Invalid(f"{name!r} does not name a table: write schema.table or catalog.schema.table")
    return print_dotted(parts)


def full_name(name: str) -> str:
    """The qualified name of a table; another text, such as the name of a task, is returned unchanged."""
    try:
        return qualified_name(name)
    except Invalid:
        return name


def base_name(name: str) -> str:
    """The last level of a qualified name; another text is returned unchanged."""
    try:
        return parse_dotted(name)[-1]
    except Invalid:
        return name
