"""How much anybody may ask for at once (figure 28); all of it can be set, nothing is unlimited."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The bounds of one server."""

    body_bytes: int = 1024 * 1024
    events_bytes: int = 16 * 1024 * 1024  # of a batch of events, inflated if it was compressed
    url_bytes: int = 32 * 1024  # a schema of 32 levels, each of 255 escaped bytes, still fits
    header_bytes: int = 64 * 1024  # the request line and all headers together
    headers_ms: int = 10_000  # from the first byte of a request to the end of its headers
    body_ms: int = 10_000  # from there to the end of its body
    request_ms: int = 30_000  # from there to the answer
    ready_ms: int = 2_000  # how long the store may take to show that it is there
    in_flight: int = 256  # requests that are worked on at once
    connections: int = 1_024
    keep_alive_s: int = 30  # how long an idle connection is kept
    drain_s: int = 20  # how long a stop waits for what is in flight
    cached_bytes: int = 32 * 1024 * 1024  # of replies that are kept to be sent again


PAGE_SIZE = 100
MOST_PAGE_SIZE = 1_000
MOST_COLUMNS = 20_000  # that one page tells of; it ends after the object that reaches it
