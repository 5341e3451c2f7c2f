"""The switch: which protocol a request is for, by how its path begins."""

from starlette.types import Receive, Scope, Send

from arco.api.dispatcher import Dispatcher
from arco.api.router import path_of
from arco.api.voice import Voice


class Switch:
    """Several protocols side by side; what is for none of the others is for the native API."""

    def __init__(self, native: Dispatcher, others: dict[str, Dispatcher]) -> None:
        self._native = native
        self._others = {root.encode(): other for root, other in others.items()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._dispatcher(scope).handle(scope, receive, send)

    def voice(self, scope: Scope) -> Voice:
        """How whoever sends this request is told of errors."""
        return self._dispatcher(scope).voice

    def _dispatcher(self, scope: Scope) -> Dispatcher:
        root = path_of(scope).split(b"/", 2)[1:2]
        return self._others.get(root[0], self._native) if root else self._native
