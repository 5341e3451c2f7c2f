"""Table names: users write `schema.table`, Arco stores `catalog.schema.table`."""

from arco.catalog.name import parse_dotted, print_dotted
from arco.core.errors import Invalid
from arco.flow.define.declarations import report_problem

DEFAULT_CATALOG = "default"


def declared_name(name: object) -> str:
    """The qualified name of a table in a declaration; a wrong name is reported and returned unchanged."""
    if not isinstance(name, str):
        report_problem(f"the name of a table is a text such as 'silver.orders', not {name!r}")
        return repr(name)
    try:
        return qualified_name(name)
    except Invalid as wrong:
        report_problem(str(wrong))
        return name


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
