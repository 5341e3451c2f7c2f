"""Pages of names: a token is the last name of the page before, and opaque to clients.

Nothing is pinned: a page goes on after that name, in whatever is there by then. So no name that stays is
left out or told twice, however long a client takes.
"""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Sequence
from typing import Protocol

from arco.api.iceberg.queries import PageQuery
from arco.core.errors import Invalid

PAGE_SIZE = 1_000
MOST_PAGE_SIZE = 10_000

_VERSION = b"1"
_MALFORMED = "pageToken is not one that this server gave"


class Names(Protocol):
    """A list of names in order, as the service gives it."""

    def __call__(self, *, after: str | None, limit: int | None) -> Awaitable[Sequence[str]]:
        """At most `limit` names behind `after`."""


async def page(query: PageQuery, names: Names) -> tuple[Sequence[str], str | None]:
    """The names of one page and the token of the next; all of them if no token was sent."""
    if query.page_token is None:
        return await names(after=None, limit=None), None
    size = min(query.page_size or PAGE_SIZE, MOST_PAGE_SIZE)
    after = unpack(query.page_token) if query.page_token else None
    found = await names(after=after, limit=size + 1)
    if len(found) <= size:
        return found, None
    return found[:size], pack(found[size - 1])


def pack(name: str) -> str:
    """The token of the page that goes on after `name`."""
    return urlsafe_b64encode(_VERSION + name.encode()).rstrip(b"=").decode()


def unpack(token: str) -> str:
    """The name that a page goes on after, or `Invalid`."""
    try:
        raw = token.encode("ascii")
        data = urlsafe_b64decode(raw + b"=" * (-len(raw) % 4))
        name = data.removeprefix(_VERSION).decode()
    except (ValueError, binascii.Error) as problem:
        raise Invalid(_MALFORMED) from problem
    if not name or pack(name) != token:
        raise Invalid(_MALFORMED)
    return name
