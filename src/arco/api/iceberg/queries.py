"""Query parameters and page tokens of the Iceberg REST catalog.

Unknown parameters are ignored, because clients may be newer. A page token is the last name of the page
before it and pins nothing: the next page goes on after that name in the newest snapshot, so no name that
stays is left out or listed twice.
"""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Sequence
from typing import Annotated, Protocol

from msgspec import Meta

from arco.api.http.request import LenientQuery
from arco.core.errors import Invalid
from arco.iceberg.loaded_metadata import SnapshotsMode

_BOOLEANS = {"true": True, "false": False}


class ConfigQuery(LenientQuery, frozen=True, kw_only=True):
    """The catalog that a client works with."""

    warehouse: str | None = None


class IcebergPageQuery(LenientQuery, frozen=True, kw_only=True, rename="camel"):
    """A list: all of it or, if a token is sent, even an empty one, page by page."""

    page_token: Annotated[str, Meta(max_length=2048)] | None = None
    page_size: Annotated[int, Meta(ge=1)] | None = None


class NamespacesQuery(IcebergPageQuery, frozen=True, kw_only=True):
    """Namespaces directly in `parent`; at the top if it is empty."""

    parent: str = ""


class LoadTableQuery(LenientQuery, frozen=True, kw_only=True):
    """Which snapshots of a table are loaded."""

    snapshots: SnapshotsMode = SnapshotsMode.ALL


class IcebergDropQuery(LenientQuery, frozen=True, kw_only=True, rename="camel"):
    """Whether the files are deleted too."""

    purge_requested: str = "false"

    @property
    def purges(self) -> bool:
        """As a boolean; PyIceberg writes `True` and `False`."""
        purges = _BOOLEANS.get(self.purge_requested.lower())
        if purges is None:
            raise Invalid(
                f"the parameter 'purgeRequested' is true or false, not {self.purge_requested[:40]!r}"
            )
        return purges


PAGE_SIZE = 1_000
MAX_PAGE_SIZE = 10_000

_VERSION = b"1"
_MALFORMED = "pageToken is not one that this server gave"


class NamePages(Protocol):
    """Reads sorted names from a service."""

    def __call__(self, *, after: str | None, limit: int | None) -> Awaitable[Sequence[str]]:
        """At most `limit` names after `after`."""


async def read_page(query: IcebergPageQuery, names: NamePages) -> tuple[Sequence[str], str | None]:
    """The names of one page and the token of the next; all names if the client sent no token."""
    if query.page_token is None:
        return await names(after=None, limit=None), None
    size = min(query.page_size or PAGE_SIZE, MAX_PAGE_SIZE)
    after = decode_token(query.page_token) if query.page_token else None
    page = await names(after=after, limit=size + 1)
    if len(page) <= size:
        return page, None
    return page[:size], encode_token(page[size - 1])


def encode_token(name: str) -> str:
    """The token of the page after `name`."""
    return urlsafe_b64encode(_VERSION + name.encode()).rstrip(b"=").decode()


def decode_token(token: str) -> str:
    """The name of a token, or `Invalid`."""
    try:
        raw = token.encode("ascii")
        data = urlsafe_b64decode(raw + b"=" * (-len(raw) % 4))
        name = data.removeprefix(_VERSION).decode()
    except (ValueError, binascii.Error) as problem:
        raise Invalid(_MALFORMED) from problem
    if not name or encode_token(name) != token:
        raise Invalid(_MALFORMED)
    return name
