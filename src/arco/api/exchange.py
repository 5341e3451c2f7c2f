"""What is known of one request while it is worked on: for its log line, its metrics and its span."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arco.api.metrics import InFlight

EXCHANGE = "arco.exchange"
ARRIVED = "arco.arrived_ms"  # when the server had a request's headers; it may have waited since


@dataclass(slots=True)
class Exchange:
    """Filled in by whoever learns it."""

    request_id: str
    arrived_ms: float
    operation: str = "none"
    route: str = ""
    principal: str = ""
    code: str = ""  # of the error that was answered
    status: int = 0  # 0: the caller left before there was an answer
    waits: bool = False  # at its caller's wish: how long it took says nothing about us
    in_flight: "InFlight | None" = None  # whom it is counted by

    def step_aside(self) -> None:
        """Be no longer counted among the requests that are worked on."""
        if self.in_flight is not None:
            self.in_flight.count -= 1
            self.in_flight = None
