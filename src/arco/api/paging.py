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

MALFORMED = "page_token is not one that this server gave"


class Token(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Where a list goes on."""

    number: Annotated[int, Meta(ge=0, le=2**53)]
    key: Annotated[str, Meta(max_length=16_384)]

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
        raise Invalid(MALFORMED) from problem
    if token.pack() != text:
        raise Invalid(MALFORMED)
    return token


def unpack_number(token: Token) -> int:
    """The key of a list that is ordered by numbers."""
    if not token.key.isascii() or not token.key.isdigit() or len(token.key) > 18:
        raise Invalid(MALFORMED)
    return int(token.key)


_BEHIND = "\x1f"  # in no name


def place(name: str, object_id: str, *, dropped: bool) -> str:
    """The key of an object in a list: its name, and its id where several may have that name."""
    return f"{name}{_BEHIND}{object_id}" if dropped else name


def unpack_place(token: Token | None) -> tuple[str | None, str | None]:
    """The name that a list goes on after, and the id that it goes on behind at that name."""
    if token is None:
        return None, None
    name, _, object_id = token.key.partition(_BEHIND)
    return name, object_id or None


def cut(found: list[T], size: int, key: Callable[[T], str]) -> tuple[list[T], str | None]:
    """The page out of more than `size` that were asked for, and its last key if there may be more."""
    if len(found) <= size:
        return found, None
    return found[:size], key(found[size - 1])
