"""Targets: what a name on the command line stands for.

Names are dotted, with double quotes around a level that holds a dot. A table is `schema.table` in the
catalog `default`, or `catalog.schema.table` with as many levels of schemas as there are; a schema is
`schema` in `default`, or `catalog.schema` and so on. With `--catalog` every part lies below that catalog.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from arco.catalog.name import check_name, join_levels, parse_dotted, print_dotted
from arco.core.errors import Invalid

DEFAULT_CATALOG = "default"


class Kind(StrEnum):
    """What the command is about; the value is the word for it."""

    CATALOG = "catalog"
    SCHEMA = "schema"
    TABLE = "table"
    VIEW = "view"


@dataclass(frozen=True)
class Target:
    """A catalog, a schema of it, or a table of that, which may be a view."""

    catalog: str
    schema: tuple[str, ...] = ()
    table: str | None = None
    is_view: bool = False

    @property
    def kind(self) -> Kind:
        """Which of them it is."""
        if self.table is not None:
            return Kind.VIEW if self.is_view else Kind.TABLE
        return Kind.SCHEMA if self.schema else Kind.CATALOG

    @property
    def name(self) -> str:
        """The last part, which alone is its own."""
        return self.table or (self.schema[-1] if self.schema else self.catalog)

    @property
    def parent(self) -> "Target":
        """What it lies in; a catalog lies in nothing and stands for itself."""
        if self.table is not None:
            return Target(self.catalog, self.schema)
        return Target(self.catalog, self.schema[:-1])

    @property
    def parts(self) -> tuple[str, ...]:
        """All parts of its name."""
        return (self.catalog, *self.schema, *(() if self.table is None else (self.table,)))

    @property
    def url(self) -> tuple[str, ...]:
        """The parts of its path below the API."""
        url: tuple[str, ...] = ("catalogs", self.catalog)
        if self.schema:
            url += ("schemas", join_levels(self.schema))
        return url if self.table is None else (*url, f"{self.kind}s", self.table)

    def __str__(self) -> str:
        return print_dotted(self.parts)


def read_catalog(text: str) -> Target:
    """The catalog that `text` names."""
    parts = parse_dotted(text)
    if len(parts) != 1:
        raise Invalid(f"{text!r} is no catalog: the name of a catalog has one part")
    return Target(parts[0])


def read_schema(text: str, catalog: str | None) -> Target:
    """The schema that `text` names."""
    parts = parse_dotted(text)
    if catalog is not None:
        return Target(check_name(catalog, "catalog"), parts)
    return Target(DEFAULT_CATALOG, parts) if len(parts) == 1 else Target(parts[0], parts[1:])


def read_table(text: str, catalog: str | None) -> Target:
    """The table that `text` names."""
    parts = parse_dotted(text)
    if len(parts) < 2:
        raise Invalid(f"the table {text!r} needs its schema, such as sales.{text}")
    parent = _below(parts[:-1], catalog, has_catalog=len(parts) > 2)
    return Target(parent.catalog, parent.schema, parts[-1])


def read_view(text: str, catalog: str | None) -> Target:
    """The view that `text` names."""
    parts = parse_dotted(text)
    if len(parts) < 2:
        raise Invalid(f"the view {text!r} needs its schema, such as sales.{text}")
    return replace(read_table(text, catalog), is_view=True)


def read_parent_of_schemas(text: str | None, catalog: str | None) -> Target:
    """What schemas are listed in: a name stands here as it stands before theirs."""
    if text is None:
        return Target(check_name(catalog or DEFAULT_CATALOG, "catalog"))
    return _below(parse_dotted(text), catalog, has_catalog=True)


def read_parent_of_tables(text: str | None, catalog: str | None) -> Target:
    """What tables are listed in: a name stands here as it stands before theirs."""
    if text is None:
        return Target(check_name(catalog or DEFAULT_CATALOG, "catalog"))
    parts = parse_dotted(text)
    return _below(parts, catalog, has_catalog=len(parts) > 1)


def _below(parts: tuple[str, ...], catalog: str | None, *, has_catalog: bool) -> Target:
    if catalog is not None:
        return Target(check_name(catalog, "catalog"), parts)
    return Target(parts[0], parts[1:]) if has_catalog else Target(DEFAULT_CATALOG, parts)
