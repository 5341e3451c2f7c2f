"""Page tokens: which manifest a list was begun on, and the last key that was given (P29).

A token is opaque to callers. It pins the manifest, so that paging is stable; when that manifest is gone the
list goes on from the key on the newest one.
"""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from arco.core import json
from arco.core.errors import Invalid

T = TypeVar("T")

_MALFORMED = "page_token is not one that this server gave"


class Token(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Where a list goes on."""

    number: Annotated[int, Meta(ge=0, le=2**53)]
    key: Annotated[str, Meta(max_length=1024)]

    def pack(self) -> str:
        """The token as it travels."""
        return urlsafe_b64encode(json.encode(self)).rstrip(b"=").decode()


def unpack(text: str) -> Token:
    """The token that was given out as `text`, or `Invalid`."""
    try:
        raw = text.encode("ascii")
        data = urlsafe_b64decode(raw + b"=" * (-len(raw) % 4))
        token = json.decode(data, Token)
    except (ValueError, binascii.Error, Invalid) as problem:
        raise Invalid(_MALFORMED) from problem
    if token.pack() != text:
        raise Invalid(_MALFORMED)
    return token


def unpack_number(token: Token) -> int:
    """The key of a list that is ordered by numbers."""
    if not token.key.isascii() or not token.key.isdigit() or len(token.key) > 18:
        raise Invalid(_MALFORMED)
    return int(token.key)


def cut(found: list[T], size: int, key: Callable[[T], str]) -> tuple[list[T], str | None]:
    """The page out of more than `size` that were asked for, and its last key if there may be more.

    Equal keys stay together, since the next page begins above the last key.
    """
    if len(found) <= size:
        return found, None
    last = key(found[size - 1])
    end = size
    while end < len(found) and key(found[end]) == last:
        end += 1
    return found[:end], last
