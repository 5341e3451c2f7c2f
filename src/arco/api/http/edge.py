"""The edge: what every request passes first and last, whichever dispatcher answers it.

It bounds URLs and requests in flight, assigns request ids, and writes the log line, metrics and span. Plain
ASGI, because every request pays for it.
"""

import logging
import re
from collections.abc import Callable
from functools import lru_cache

from arco.api.http.asgi import (
    ARRIVED,
    EXCHANGE,
    ASGIApp,
    Exchange,
    InFlightCount,
    Receive,
    Scope,
    Send,
)
from arco.api.http.limits import HttpLimits
from arco.api.http.problem import PROBLEM_FORMAT, ErrorFormat, HttpError
from arco.api.http.reply import send_reply
from arco.api.http.telemetry import Log, RequestTracing, use_span
from arco.api.metrics import Metrics
from arco.core.runtime import Runtime

# Answered however many requests are in flight.
PROBES = frozenset({"/health", "/health/live", "/health/ready", "/metrics"})

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_LOGGED_PATH_BYTES = 256
_CACHED_HOSTS = 256
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_NOT_ON_ADMIN_PORT = HttpError(
    404,
    "no_such_route",
    "this port serves health and metrics alone",
    next_step=f"Ask for one of {', '.join(sorted(PROBES))}, or use the main port.",
)


class EdgeApp:
    """Guards and observes another application; `error_format` is the format for a request's errors.

    `hosts` are the host names that the server answers to; None for any.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        runtime: Runtime,
        limits: HttpLimits,
        log: Log,
        metrics: Metrics,
        tracing: RequestTracing,
        hosts: frozenset[str] | None = None,
        error_format: Callable[[Scope], ErrorFormat] = lambda _scope: PROBLEM_FORMAT,
    ) -> None:
        self._app = app
        self._error_format = error_format
        self._runtime = runtime
        self._limits = limits
        self._log = log
        self._metrics = metrics
        self._tracing = tracing
        self._hosts = hosts
        self._in_flight = InFlightCount()
        metrics.watch_in_flight(self._in_flight)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        exchange = Exchange(
            self._request_id(headers.get(b"x-request-id")),
            scope.get(ARRIVED) or self._runtime.clock.elapsed_ms(),
            headers,
            in_flight=self._in_flight,
        )
        scope[EXCHANGE] = exchange
        span = self._tracing.start(scope["method"], headers.get(b"traceparent"))
        self._in_flight.count += 1
        try:
            error = self._check(scope, headers)
            if error is None:
                with use_span(span):
                    await self._app(scope, receive, send)
            else:
                formatted = self._error_format(scope).format(error, exchange.operation)
                exchange.code = formatted.code
                await send_reply(formatted.reply, scope, send)
        finally:
            exchange.leave_in_flight()
            self._tracing.end(span, exchange, scope["method"])
            self._record(scope, exchange)

    def _request_id(self, header: bytes | None) -> str:
        if header is not None and _REQUEST_ID.fullmatch(header):
            return header.decode()
        return self._runtime.rng.randbytes(12).hex()

    def _check(self, scope: Scope, headers: dict[bytes, bytes]) -> HttpError | None:
        """Why the request is refused before it reaches the application; None if it is not."""
        limits = self._limits
        if self._in_flight.count > limits.in_flight and scope["path"] not in PROBES:
            return HttpError(
                503,
                "too_busy",
                "too many requests at once; nothing was done",
                next_step="Retry after the time in Retry-After.",
                headers={"Retry-After": "1"},
            )
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > limits.url_bytes:
            return HttpError(
                414,
                "url_too_long",
                f"the URL is longer than {limits.url_bytes} bytes",
                next_step="Send fewer or shorter parameters, such as a smaller page.",
            )
        return None if self._hosts is None else _check_origin(scope, headers, self._hosts)

    def _record(self, scope: Scope, exchange: Exchange) -> None:
        ms = self._runtime.clock.elapsed_ms() - exchange.arrived_ms
        measured_ms = None if exchange.long_polls else ms
        self._metrics.record_request(exchange.operation, exchange.status, measured_ms)
        if not self._log.is_enabled_for(logging.INFO):
            return
        raw = scope.get("raw_path") or b""
        self._log.info(
            "request",
            method=scope["method"],
            path=raw[:_LOGGED_PATH_BYTES].decode("latin-1"),
            operation=exchange.operation,
            status=exchange.status,
            code=exchange.code,
            ms=round(ms, 2),
            principal=exchange.principal,
            request_id=exchange.request_id,
        )


class AdminApp:
    """Health and metrics of another application, on a port that a flood on the main port does not reach."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in PROBES:
            await self._app(scope, receive, send)
        else:
            await send_reply(PROBLEM_FORMAT.format(_NOT_ON_ADMIN_PORT, "").reply, scope, send)


def _check_origin(
    scope: Scope, headers: dict[bytes, bytes], hosts: frozenset[str]
) -> HttpError | None:
    """Refuse what a page of another site sends to a server that trusts every request of its machine.

    The page may resolve its own host name to this server. It may also send a change without a preflight:
    the browser hides the answer from it, but the change would be made.
    """
    host = headers.get(b"host", b"")
    host_name = _host_name(host)
    if host_name not in hosts:
        return HttpError(
            403,
            "wrong_host",
            f"the host {host_name[:80]!r} is not allowed without authentication",
            next_step="Use 127.0.0.1, or start the server with --auth local.",
        )
    if scope["method"] in _SAFE_METHODS:
        return None
    origin = headers.get(b"origin")
    is_foreign = origin is not None and origin.lower().partition(b"://")[2] != host.lower()
    if is_foreign or headers.get(b"sec-fetch-site", b"").lower() == b"cross-site":
        return HttpError(
            403,
            "cross_site",
            "a page of another site may not make changes on this server; nothing was done",
            next_step="Send the request from a program, or start the server with --auth local.",
        )
    return None


@lru_cache(_CACHED_HOSTS)
def _host_name(host: bytes) -> str:
    """The name without its port; an IPv6 address keeps its brackets."""
    text = host.decode("latin-1").lower()
    if text.startswith("["):
        return text.partition("]")[0] + "]"
    return text.partition(":")[0]
