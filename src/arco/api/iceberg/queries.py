"""Parameters of the routes. Those that we do not know are let through: clients may be newer than we are."""

from typing import Annotated

from msgspec import Meta

from arco.api.query_params import OpenQuery
from arco.core.errors import Invalid
from arco.iceberg.loaded import Form

_BOOLEANS = {"true": True, "false": False}


class ConfigQuery(OpenQuery, frozen=True, kw_only=True):
    """Which catalog a client wants to work with."""

    warehouse: str | None = None


class PageQuery(OpenQuery, frozen=True, kw_only=True, rename="camel"):
    """A list: all of it, or, once a token is sent, even an empty one, page by page."""

    page_token: Annotated[str, Meta(max_length=2048)] | None = None
    page_size: Annotated[int, Meta(ge=1)] | None = None


class NamespacesQuery(PageQuery, frozen=True, kw_only=True):
    """Namespaces right below `parent`, or at the top; an empty one is none."""

    parent: str = ""


class LoadQuery(OpenQuery, frozen=True, kw_only=True):
    """How much of a table's history is wanted."""

    snapshots: Form = Form.ALL


class DropQuery(OpenQuery, frozen=True, kw_only=True, rename="camel"):
    """Whether the files shall go too."""

    purge_requested: str = "false"

    @property
    def purges(self) -> bool:
        """As a boolean: one of the clients writes it as Python does."""
        purges = _BOOLEANS.get(self.purge_requested.lower())
        if purges is None:
            raise Invalid(
                f"the parameter 'purgeRequested' is true or false, not {self.purge_requested[:40]!r}"
            )
        return purges
