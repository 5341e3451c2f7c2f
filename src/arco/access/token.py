"""Local bearer tokens: JWTs that an installation signs with its own key (HS256).

The key is derived from the signing key of the installation under a separate label, so that the signature
of a URL is never the signature of a token. Only tokens that `mint` could have written are accepted: one
algorithm, one issuer, one audience, a bounded lifetime, and no header that redirects the verification.
"""

import hmac
import json as strict_json
import re
from base64 import urlsafe_b64decode
from typing import Annotated, Final, Literal, TypeVar

import msgspec
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import OctKey

from arco.access.principal import Principal, PrincipalRole
from arco.core import json
from arco.core.errors import Invalid, Unauthenticated
from arco.core.ids import new_ulid
from arco.core.lru_cache import LruCache
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.storage.signing import KEY_BYTES

MAX_LIFE_S = 365 * 24 * 3600
MAX_TOKEN_CHARS = 8 * 1024
SKEW_S = 60
_MAX_GENUINE = 1_024

ISSUER: Final = "arco-local"
AUDIENCE: Final = "arco"
KEY_ID: Final = "arco-token-1"
_ALGORITHMS = ["HS256"]

UNAUTHENTICATED = "the bearer token is missing or not valid; ask for a new one"

TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*", re.ASCII)  # b64token of RFC 6750
_AUTHORIZATION = re.compile(rf"bearer +({TOKEN.pattern})", re.ASCII | re.IGNORECASE)

TokenId = Annotated[str, msgspec.Meta(min_length=1)]

T = TypeVar("T")


class TokenHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The JWT header. `crit`, `b64`, `jwk`, `jku`, `x5u` and the like are rejected."""

    alg: Literal["HS256"]
    typ: Literal["JWT"] = "JWT"
    kid: Literal["arco-token-1"] = "arco-token-1"


class TokenClaims(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The JWT claims, all of which are required."""

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


class LocalTokens:
    """Mints and verifies the tokens of one installation."""

    def __init__(self, key: bytes, runtime: Runtime, *, longest_life_s: int = MAX_LIFE_S) -> None:
        if len(key) < KEY_BYTES:
            raise Invalid(f"a signing key has at least {KEY_BYTES} bytes, not {len(key)}")
        self._key = OctKey.import_key(hmac.digest(key, KEY_ID.encode(), "sha256"))
        self._runtime = runtime
        self._longest_life_s = longest_life_s
        # Tokens whose signature was verified. Their times are checked at each request.
        self._genuine = LruCache[str, tuple[TokenClaims, Principal]](_MAX_GENUINE)

    def mint(self, principal: Principal, *, life_s: int) -> str:
        """A token for `principal` that is valid for `life_s` seconds from now."""
        if not 1 <= life_s <= self._longest_life_s:
            raise Invalid(f"a token lives from 1 to {self._longest_life_s} seconds, not {life_s}")
        if principal.role is not PrincipalRole.CALLER:
            raise Invalid("a service authenticates by the service token only")
        now_s = self._now_s()
        claims = TokenClaims(
            iss=ISSUER,
            aud=AUDIENCE,
            sub=principal.name,
            iat=now_s,
            nbf=now_s,
            exp=now_s + life_s,
            jti=new_ulid(self._runtime),
            tenant_id=principal.scope.tenant,
            workspace_id=principal.scope.workspace,
            groups=principal.groups,
        )
        header = {"alg": "HS256", "typ": "JWT", "kid": KEY_ID}
        token = jws.serialize_compact(header, json.encode(claims), self._key, _ALGORITHMS)
        if len(token) > MAX_TOKEN_CHARS:
            raise Invalid(f"the groups do not fit into a token of {MAX_TOKEN_CHARS} characters")
        return token

    def verify(self, token: str) -> Principal:
        """The principal of a valid token, or `Unauthenticated` with a constant message."""
        try:
            genuine = self._genuine.get(token)
            if genuine is None:
                claims = self._verify_signature(token)
                scope = Scope(claims.tenant_id, claims.workspace_id)
                genuine = claims, Principal(claims.sub, scope, claims.groups)
                self._genuine.put(token, genuine)
            self._check_times(genuine[0])
            return genuine[1]
        except (JoseError, ValueError, Invalid):
            # The reason may quote the token, so it is dropped.
            raise Unauthenticated(UNAUTHENTICATED) from None

    def _verify_signature(self, token: str) -> TokenClaims:
        """The claims of a genuine token, whose times are not checked yet."""
        if len(token) > MAX_TOKEN_CHARS:
            raise Invalid("too long")
        head = token.partition(".")[0].encode("ascii")
        # Checked before the library reads the header, which would act on fields that Arco does not use.
        _decode_strict(urlsafe_b64decode(head + b"=" * (-len(head) % 4)), TokenHeader)
        payload = jws.deserialize_compact(token, self._key, _ALGORITHMS).payload
        return _decode_strict(payload, TokenClaims)

    def _check_times(self, claims: TokenClaims) -> None:
        now_s = self._now_s()
        if max(claims.iat, claims.nbf) > now_s + SKEW_S:
            raise Invalid("from the future")
        if claims.exp <= now_s - SKEW_S:
            raise Invalid("expired")
        if not claims.iat <= claims.nbf < claims.exp <= claims.iat + self._longest_life_s:
            raise Invalid("lifetime too long or empty")

    def _now_s(self) -> int:
        return self._runtime.clock.now_ms() // 1000


def parse_bearer(authorization: str | None) -> str:
    """The token in the value of the header `Authorization`, or `Unauthenticated`."""
    match = _AUTHORIZATION.fullmatch(authorization or "")
    if match is None:
        raise Unauthenticated(UNAUTHENTICATED)
    return match[1]


def _decode_strict(data: bytes, kind: type[T]) -> T:
    """`data` decoded as `kind`, or `Invalid`, whose message never quotes the data.

    A missing or unknown field, another JSON type and a fractional number are rejected. So is a field that
    occurs twice, because two readers could each use another one; `core.json` would keep the second.
    """
    try:
        fields = strict_json.loads(data.decode(), object_pairs_hook=_unique_fields)
        return msgspec.convert(fields, kind)
    except (ValueError, RecursionError, msgspec.MsgspecError):
        raise Invalid("not the content of a token") from None


def _unique_fields(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError
    return fields
