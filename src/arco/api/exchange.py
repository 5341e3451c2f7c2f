"""What is known of one request while it is worked on: for its log line, its metrics and its span."""

from dataclasses import dataclass

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
