"""The admin port: health and metrics on a port of their own, which a flood on the other does not reach."""

from starlette.types import ASGIApp, Receive, Scope, Send

from arco.api.edge import PROBES
from arco.api.problem import Refusal
from arco.api.reply import send_reply
from arco.api.voice import NATIVE

_NOT_HERE = Refusal(
    404,
    "no_such_route",
    "this port serves health and metrics alone",
    next_step=f"Ask for one of {', '.join(sorted(PROBES))}, or use the main port.",
)


class AdminApp:
    """Another application, as far as it answers probes."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in PROBES:
            await self._app(scope, receive, send)
        else:
            await send_reply(NATIVE.tell(_NOT_HERE, "").reply, scope, send)
