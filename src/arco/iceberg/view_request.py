"""Requests about views in the catalog's own API."""

import msgspec
from msgspec import UNSET, UnsetType

from arco.catalog.ddl import ColumnSpec, Description, DropTable, SchemaName, UpdateTable


class Query(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """The query of a view in one SQL dialect."""

    sql: str
    dialect: str


class CreateView(Description, frozen=True, kw_only=True):
    """Create a view. Partial names in its query are resolved in the defaults, or in its schema."""

    schema: SchemaName
    name: str
    queries: tuple[Query, ...]
    columns: tuple[ColumnSpec, ...]
    default_catalog: str | None = None
    default_namespace: tuple[str, ...] | None = None


class Redefinition(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """The changes of a view's definition; `UNSET` members stay."""

    queries: tuple[Query, ...] | UnsetType = UNSET
    columns: tuple[ColumnSpec, ...] | UnsetType = UNSET
    default_catalog: str | UnsetType | None = UNSET
    default_namespace: tuple[str, ...] | UnsetType = UNSET

    @property
    def is_empty(self) -> bool:
        """Whether nothing changes."""
        return all(getattr(self, name) is UNSET for name in self.__struct_fields__)


class UpdateView(UpdateTable, frozen=True, kw_only=True):
    """Rename, move, describe or redefine a view."""

    redefinition: Redefinition = Redefinition()


class DropView(DropTable, frozen=True, kw_only=True):
    """Drop a view; it can be undropped until the retention ends."""


ViewRequest = CreateView | UpdateView | DropView
