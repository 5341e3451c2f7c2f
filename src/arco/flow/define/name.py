"""Names of tables: people write `schema.table`, everything inside has three levels."""

from arco.catalog.name import parse_dotted, print_dotted
from arco.core.errors import Invalid
from arco.flow.define.collect import complain

DEFAULT_CATALOG = "default"


def full_name(name: object) -> str:
    """`name` with its catalog; a name that is none is complained of and returned as it was written."""
    if not isinstance(name, str):
        complain(f"the name of a table is a text such as 'silver.orders', not {name!r}")
        return repr(name)
    try:
        return three_levels(name)
    except Invalid as wrong:
        complain(str(wrong))
        return name


def three_levels(name: str) -> str:
    """`catalog.schema.table` for a name of two or three levels."""
    parts = parse_dotted(name)
    if len(parts) == 2:
        parts = (DEFAULT_CATALOG, *parts)
    if len(parts) != 3:
        raise Invalid(f"{name!r} does not name a table: write schema.table or catalog.schema.table")
    return print_dotted(parts)


def last_part(name: str) -> str:
    """The table's own name in a name of three levels; any other text is its own last part."""
    try:
        return parse_dotted(name)[-1]
    except Invalid:
        return name
