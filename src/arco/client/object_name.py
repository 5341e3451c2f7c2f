"""Names of catalogs, schemas, tables and views, as people write them and as URLs carry them.

Names are dotted, with double quotes around a level that holds a dot. A table is `schema.table` in the
catalog `default`, or `catalog.schema.table` with as many levels of schemas as it has; a schema is `schema`
in `default`, or `catalog.schema` and so on. If `catalog` is given, every part lies below that catalog.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from arco.catalog.name import check_name, join_levels, parse_dotted, print_dotted
from arco.client.transport import path
from arco.core.errors import Invalid

DEFAULT_CATALOG = "default"


class ObjectType(StrEnum):
    """The type of an object; the value is the word for it in commands and messages."""

    CATALOG = "catalog"
    SCHEMA = "schema"
    TABLE = "table"
    VIEW = "view"


@dataclass(frozen=True)
class ObjectName:
    """The name of a catalog, of a schema in it, or of a table or view in that."""

    catalog: str
    schema: tuple[str, ...] = ()
    table: str | None = None
    is_view: bool = False

    @property
    def type(self) -> ObjectType:
        """What it names."""
        if self.table is not None:
            return ObjectType.VIEW if self.is_view else ObjectType.TABLE
        return ObjectType.SCHEMA if self.schema else ObjectType.CATALOG

    @property
    def name(self) -> str:
        """The last part."""
        return self.table or (self.schema[-1] if self.schema else self.catalog)

    @property
    def parent(self) -> "ObjectName":
        """The schema or catalog that it lies in; a catalog is its own parent."""
        if self.table is not None:
            return ObjectName(self.catalog, self.schema)
        return ObjectName(self.catalog, self.schema[:-1])

    @property
    def parts(self) -> tuple[str, ...]:
        """All parts of its name."""
        return (self.catalog, *self.schema, *(() if self.table is None else (self.table,)))

    @property
    def path(self) -> str:
        """Its path below the API."""
        return (
            f"{self.collection}{path(self.levels if self.type is ObjectType.SCHEMA else self.name)}"
        )

    @property
    def collection(self) -> str:
        """The path of the list that it is in."""
        if self.type is ObjectType.CATALOG:
            return path("catalogs")
        if self.type is ObjectType.SCHEMA:
            return path("catalogs", self.catalog, "schemas")
        return path("catalogs", self.catalog, "schemas", self.levels, f"{self.type}s")

    @property
    def levels(self) -> str:
        """The levels of its schema as a URL carries them."""
        return join_levels(self.schema)

    def __str__(self) -> str:
        return print_dotted(self.parts)


def parse_catalog(text: str, _catalog: str | None = None) -> ObjectName:
    """The catalog that `text` names."""
    parts = parse_dotted(text)
    if len(parts) != 1:
        raise Invalid(f"{text!r} is no catalog: the name of a catalog has one part")
    return ObjectName(parts[0])


def parse_schema(text: str, catalog: str | None = None) -> ObjectName:
    """The schema that `text` names."""
    parts = parse_dotted(text)
    return _below(parts, catalog, has_catalog=len(parts) > 1)


def parse_table(text: str, catalog: str | None = None) -> ObjectName:
    """The table that `text` names."""
    return _in_schema(text, catalog, "table")


def parse_view(text: str, catalog: str | None = None) -> ObjectName:
    """The view that `text` names."""
    return replace(_in_schema(text, catalog, "view"), is_view=True)


def parse_parent_of_schemas(text: str | None, catalog: str | None = None) -> ObjectName:
    """The catalog or schema whose schemas are listed: what stands before the last dot of their names."""
    if text is None:
        return ObjectName(check_name(catalog or DEFAULT_CATALOG, "catalog"))
    return _below(parse_dotted(text), catalog, has_catalog=True)


def parse_parent_of_tables(text: str | None, catalog: str | None = None) -> ObjectName:
    """The schema or catalog whose tables are listed: what stands before the last dot of their names."""
    if text is None:
        return ObjectName(check_name(catalog or DEFAULT_CATALOG, "catalog"))
    return parse_schema(text, catalog)


PARSERS: Mapping[ObjectType, Callable[[str, str | None], ObjectName]] = {
    ObjectType.CATALOG: parse_catalog,
    ObjectType.SCHEMA: parse_schema,
    ObjectType.TABLE: parse_table,
    ObjectType.VIEW: parse_view,
}


def _in_schema(text: str, catalog: str | None, kind: str) -> ObjectName:
    parts = parse_dotted(text)
    if len(parts) < 2:
        raise Invalid(f"the {kind} {text!r} needs its schema, such as sales.{text}")
    schema = _below(parts[:-1], catalog, has_catalog=len(parts) > 2)
    return ObjectName(schema.catalog, schema.schema, parts[-1])


def _below(parts: tuple[str, ...], catalog: str | None, *, has_catalog: bool) -> ObjectName:
    if catalog is not None:
        return ObjectName(check_name(catalog, "catalog"), parts)
    if has_catalog:
        return ObjectName(parts[0], parts[1:])
    return ObjectName(DEFAULT_CATALOG, parts)
