"""What a local token holds, and the strict way to read it.

The types are the rules: a header or a claim that is missing, of another JSON type, or unknown to us
is `Invalid`. So is a name given twice, because two readers could each believe another of the two,
and a number that is no whole number, because a second is one.
"""

import json
from typing import Annotated, Final, Literal, TypeVar

import msgspec

from arco.core.errors import Invalid

ISSUER: Final = "arco-local"
AUDIENCE: Final = "arco"
KEY_ID: Final = "arco-token-1"

TokenId = Annotated[str, msgspec.Meta(min_length=1)]

T = TypeVar("T")


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No `crit`, `b64`, `jwk`, `jku`, `x5u` and the like: there is one key and one algorithm."""

    alg: Literal["HS256"]
    typ: Literal["JWT"] = "JWT"
    kid: Literal["arco-token-1"] = "arco-token-1"


class Claims(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Who may use the token, where and when; all of it is required."""

    iss: Literal["arco-local"]
    aud: Literal["arco"] | tuple[Literal["arco"]]
    sub: str
    iat: int
    nbf: int
    exp: int
    jti: TokenId
    tenant_id: str
    workspace_id: str
    groups: tuple[str, ...]


def read(data: bytes, kind: type[T]) -> T:
    """`data` as a `kind`, or `Invalid`, which never repeats what was read."""
    try:
        # Not the decoder of core: of two members with one name it keeps the last without a word.
        members = json.loads(data.decode(), object_pairs_hook=_once)
        return msgspec.convert(members, kind)
    except (ValueError, RecursionError, msgspec.MsgspecError):
        raise Invalid("not what a token holds") from None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError
    return members
