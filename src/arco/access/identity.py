"""From a header to a principal: the seam that the API asks before anything else."""

from typing import Protocol

from arco.access.bearer import bearer
from arco.access.principal import LOCAL, Principal
from arco.access.token import LocalTokens
from arco.core.errors import Denied
from arco.core.scope import Scope


class Identity(Protocol):
    """Some way to know who is calling."""

    async def identify(self, authorization: str | None) -> Principal:
        """Who sent this value of the header `Authorization`.

        `Unauthenticated` if that cannot be told, `Denied` if they have no business here.
        """


class NoIdentity:
    """Everybody is the local user: for a server that only its own machine can reach."""

    def __init__(self, scope: Scope) -> None:
        self._principal = Principal(LOCAL, scope)

    async def identify(self, authorization: str | None) -> Principal:  # noqa: ARG002
        return self._principal


class BearerIdentity:
    """Whoever a local token says, if it is of one of the scopes that are served here."""

    def __init__(self, tokens: LocalTokens, *scopes: Scope) -> None:
        self._tokens = tokens
        self._scopes = frozenset(scopes)

    async def identify(self, authorization: str | None) -> Principal:
        principal = self._tokens.verify(bearer(authorization))
        if principal.scope not in self._scopes:
            raise Denied("this workspace is not served here")
        return principal
