"""Authentication: from the value of the header `Authorization` to a principal.

Every request passes through an `Identity` before anything else. Callers send local tokens; Arco's own
processes send the service token (`ARCO_SERVICE_TOKEN`).
"""

import hashlib
import hmac
from typing import Protocol

from arco.access.principal import LOCAL_USER, Principal, PrincipalRole
from arco.access.token import TOKEN, UNAUTHENTICATED, LocalTokens, parse_bearer
from arco.core.errors import Denied, Invalid, Unauthenticated
from arco.core.scope import Scope

MIN_SERVICE_TOKEN_CHARS = 16
_SERVICE_NAME = "client:service"


class Identity(Protocol):
    """A way to authenticate a request."""

    async def identify(self, authorization: str | None) -> Principal:
        """The principal that sent this value of the header `Authorization`.

        `Unauthenticated` if the value proves nothing, `Denied` if its scope is not served.
        """


class NoIdentity:
    """Every caller is the local user: for a server that only its own machine can reach."""

    def __init__(self, scope: Scope) -> None:
        self._principal = Principal(LOCAL_USER, scope)

    async def identify(self, authorization: str | None) -> Principal:  # noqa: ARG002
        return self._principal


class BearerIdentity:
    """Accepts local tokens of the scopes that this server serves."""

    def __init__(self, tokens: LocalTokens, *scopes: Scope) -> None:
        self._tokens = tokens
        self._scopes = frozenset(scopes)

    async def identify(self, authorization: str | None) -> Principal:
        principal = self._tokens.verify(parse_bearer(authorization))
        if principal.scope not in self._scopes:
            raise Denied("this server does not serve the workspace of the token")
        return principal


class ServiceToken:
    """Accepts one shared secret: the `Identity` for the internal operations of one scope."""

    def __init__(self, secret: str, scope: Scope) -> None:
        if len(secret) < MIN_SERVICE_TOKEN_CHARS:
            raise Invalid(f"a service token has at least {MIN_SERVICE_TOKEN_CHARS} characters")
        if TOKEN.fullmatch(secret) is None:
            raise Invalid("a service token is made of letters, digits and -._~+/ only")
        self._digest = _digest(secret)
        self._principal = Principal(_SERVICE_NAME, scope, role=PrincipalRole.SERVICE)

    async def identify(self, authorization: str | None) -> Principal:
        if not hmac.compare_digest(_digest(parse_bearer(authorization)), self._digest):
            raise Unauthenticated(UNAUTHENTICATED)
        return self._principal


def _digest(secret: str) -> bytes:
    # Digests have one length, so that the comparison does not reveal the length of the secret.
    return hashlib.sha256(secret.encode()).digest()
