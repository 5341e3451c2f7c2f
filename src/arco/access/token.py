"""Local bearer tokens: JWTs that the installation signs for itself (HS256).

The key is derived from the installation's, under a label of its own, so that no signature of a URL
is ever the signature of a token. Only what `mint` could have written is accepted: one algorithm, one
issuer, one audience, a bounded life, and no header that would lead the check elsewhere.
"""

import hmac
from base64 import urlsafe_b64decode

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import OctKey

from arco.access.bearer import REFUSED
from arco.access.claims import AUDIENCE, ISSUER, KEY_ID, Claims, Header, read
from arco.access.principal import Principal, Role
from arco.core import json
from arco.core.errors import Invalid, Unauthenticated
from arco.core.ids import new_ulid
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.storage.signing import KEY_BYTES

LONGEST_LIFE_S = 365 * 24 * 3600
LONGEST_TOKEN = 8 * 1024
SKEW_S = 60

_ALGORITHMS = ["HS256"]


class LocalTokens:
    """Mints and verifies the tokens of one installation."""

    def __init__(
        self, key: bytes, runtime: Runtime, *, longest_life_s: int = LONGEST_LIFE_S
    ) -> None:
        if len(key) < KEY_BYTES:
            raise Invalid(f"a signing key has at least {KEY_BYTES} bytes")
        self._key = OctKey.import_key(hmac.digest(key, KEY_ID.encode(), "sha256"))
        self._runtime = runtime
        self._longest_life_s = longest_life_s

    def mint(self, principal: Principal, *, life_s: int) -> str:
        """A token that proves to be `principal` for so many seconds from now."""
        if not 1 <= life_s <= self._longest_life_s:
            raise Invalid(f"a token lives from 1 to {self._longest_life_s} seconds")
        if principal.role is not Role.CALLER:
            raise Invalid("a service proves itself by the service token alone")
        now_s = self._now_s()
        claims = Claims(
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
        if len(token) > LONGEST_TOKEN:
            raise Invalid(f"the groups do not fit into a token of {LONGEST_TOKEN} characters")
        return token

    def verify(self, token: str) -> Principal:
        """Who the token proves to be, or `Unauthenticated` in one constant sentence."""
        try:
            claims = self._claims(token)
            self._check_times(claims)
            scope = Scope(claims.tenant_id, claims.workspace_id)
            return Principal(claims.sub, scope, claims.groups)
        except (JoseError, ValueError, Invalid):
            # The reason may quote the token, so it goes no further.
            raise Unauthenticated(REFUSED) from None

    def _claims(self, token: str) -> Claims:
        """What a genuine token says; whether it is time for it is not yet looked at."""
        if len(token) > LONGEST_TOKEN:
            raise Invalid("too long")
        head = token.partition(".")[0].encode("ascii")
        # Before the library reads it, which would act on headers that we do not know.
        read(urlsafe_b64decode(head + b"=" * (-len(head) % 4)), Header)
        return read(jws.deserialize_compact(token, self._key, _ALGORITHMS).payload, Claims)

    def _check_times(self, claims: Claims) -> None:
        now_s = self._now_s()
        if max(claims.iat, claims.nbf) > now_s + SKEW_S:
            raise Invalid("from the future")
        if claims.exp <= now_s - SKEW_S:
            raise Invalid("expired")
        if not claims.iat <= claims.nbf < claims.exp <= claims.iat + self._longest_life_s:
            raise Invalid("lives too long, or not at all")

    def _now_s(self) -> int:
        return self._runtime.clock.now_ms() // 1000
