"""The limits of one server. All of them can be set; nothing is unlimited."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class HttpLimits:
    """Sizes, times and counts that a server allows."""

    body_bytes: int = 1024 * 1024
    events_bytes: int = 16 * 1024 * 1024  # of a batch of events, after decompression
    url_bytes: int = 32 * 1024  # a schema of 32 levels, each of 255 escaped bytes, still fits
    header_bytes: int = 64 * 1024  # the request line and all headers together
    headers_ms: int = 10_000  # from the first byte of a request to the end of its headers
    body_ms: int = 10_000  # from there to the end of its body
    request_ms: int = 30_000  # from there to the answer
    ready_ms: int = 2_000  # how long the store may take to answer a readiness probe
    in_flight: int = 256  # requests that are served at once
    connections: int = 1_024
    keep_alive_s: int = 30  # how long an idle connection is kept
    drain_s: int = 20  # how long a shutdown waits for requests in flight
    cached_bytes: int = 32 * 1024 * 1024  # of replies that are cached


PAGE_SIZE = 100
MAX_PAGE_SIZE = 1_000
MAX_PAGE_COLUMNS = 20_000  # a page ends after the object that reaches this many columns
