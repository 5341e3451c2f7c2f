"""The token by which our own processes know each other (`ARCO_SERVICE_TOKEN`)."""

import hashlib
import hmac

from arco.access.bearer import REFUSED, TOKEN, bearer
from arco.access.principal import Principal, Role
from arco.core.errors import Invalid, Unauthenticated
from arco.core.scope import Scope

SHORTEST_TOKEN = 16

_NAME = "client:service"


class ServiceToken:
    """Recognises the one secret; an `Identity` for the internal operations of one scope."""

    def __init__(self, secret: str, scope: Scope) -> None:
        if len(secret) < SHORTEST_TOKEN:
            raise Invalid(f"a service token has at least {SHORTEST_TOKEN} characters")
        if TOKEN.fullmatch(secret) is None:
            raise Invalid("a service token is made of letters, digits and -._~+/ alone")
        self._digest = _digest(secret)
        self._principal = Principal(_NAME, scope, role=Role.SERVICE)

    async def identify(self, authorization: str | None) -> Principal:
        if not hmac.compare_digest(_digest(bearer(authorization)), self._digest):
            raise Unauthenticated(REFUSED)
        return self._principal


def _digest(secret: str) -> bytes:
    # Digests are of one length, so that the comparison does not tell the secret's.
    return hashlib.sha256(secret.encode()).digest()
