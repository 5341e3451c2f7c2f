"""The ASGI types that the plumbing speaks, and what is recorded about one request while it is served."""

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

EXCHANGE = "arco.exchange"  # key of the `Exchange` in a scope
ARRIVED = "arco.arrived_ms"  # key of the time at which the request's headers were complete


@dataclass(slots=True)
class InFlightCount:
    """How many requests are being served."""

    count: int = 0


@dataclass(slots=True)
class Exchange:
    """One request and its answer, for the log line, the metrics and the span."""

    request_id: str
    arrived_ms: float
    headers: dict[bytes, bytes]  # of several with one name, the last
    operation: str = "none"
    route: str = ""
    principal: str = ""
    code: str = ""  # of the error that was answered
    status: int = 0  # 0: the client disconnected before the answer
    long_polls: bool = False  # the client chose how long it takes, so its latency is not recorded
    in_flight: InFlightCount | None = None  # where it is counted

    def leave_in_flight(self) -> None:
        """Stop counting this request as in flight."""
        if self.in_flight is not None:
            self.in_flight.count -= 1
            self.in_flight = None


def path_of(scope: Scope) -> bytes:
    """The path as it was sent, or escaped again if the server does not keep it."""
    raw = scope.get("raw_path")
    return raw if isinstance(raw, bytes) else quote(scope["path"]).encode()
