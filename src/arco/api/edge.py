"""The edge: what every request passes first and last, whoever answers it.

Bounds on URL, headers and requests in flight; the request's id; its log line, its metrics and its span.
Plain ASGI, because it is paid for by every request.
"""

import re
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from arco.api.exchange import ARRIVED, EXCHANGE, Exchange
from arco.api.limits import Limits
from arco.api.log import Log
from arco.api.metrics import InFlight, Metrics
from arco.api.problem import Refusal
from arco.api.reply import send_reply
from arco.api.tracing import Tracing, within
from arco.api.voice import NATIVE, Voice
from arco.core.runtime import Runtime

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
# They must answer in a crowd.
PROBES = frozenset({"/health", "/health/live", "/health/ready", "/metrics"})
_LOGGED_PATH = 256
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_LOOKED_AT = frozenset({b"x-request-id", b"traceparent", b"host", b"origin", b"sec-fetch-site"})


def _native(_scope: Scope) -> Voice:
    return NATIVE


class Edge:
    """Another application, guarded and watched; `voice` says how to refuse what is sent to it."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        runtime: Runtime,
        limits: Limits,
        log: Log,
        metrics: Metrics,
        tracing: Tracing,
        hosts: frozenset[str] | None = None,
        voice: Callable[[Scope], Voice] = _native,
    ) -> None:
        self._app = app
        self._voice = voice
        self._runtime = runtime
        self._limits = limits
        self._log = log
        self._metrics = metrics
        self._tracing = tracing
        self._hosts = hosts
        self._in_flight = InFlight()
        metrics.watch_in_flight(self._in_flight)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        told = _look(scope)
        exchange = Exchange(
            self._request_id(told.get(b"x-request-id")),
            scope.get(ARRIVED) or self._runtime.clock.elapsed_ms(),
            in_flight=self._in_flight,
        )
        scope[EXCHANGE] = exchange

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                exchange.status = message["status"]
                message["headers"].append((b"x-request-id", exchange.request_id.encode()))
            await send(message)

        span = self._tracing.start(scope["method"], told.get(b"traceparent"))
        self._in_flight.count += 1
        try:
            refusal = self._refusal(scope, told)
            if refusal is None:
                with within(span):
                    await self._app(scope, receive, answer)
            else:
                refused = self._voice(scope).tell(refusal, exchange.operation)
                exchange.code = refused.code
                await send_reply(refused.reply, scope, answer)
        finally:
            exchange.step_aside()
            self._tracing.end(span, exchange, scope["method"])
            self._tell(scope, exchange)

    def _request_id(self, given: bytes | None) -> str:
        if given is not None and _REQUEST_ID.fullmatch(given):
            return given.decode()
        return self._runtime.rng.randbytes(12).hex()

    def _refusal(self, scope: Scope, told: dict[bytes, bytes]) -> Refusal | None:
        """Why the request goes no further, if it does not."""
        limits = self._limits
        if self._in_flight.count > limits.in_flight and scope["path"] not in PROBES:
            return Refusal(
                503,
                "too_busy",
                "too many requests at once; nothing was done",
                next_step="Retry after the time in Retry-After.",
                headers={"Retry-After": "1"},
            )
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > limits.url_bytes:
            return Refusal(414, "url_too_long", f"a URL has at most {limits.url_bytes} bytes here")
        return None if self._hosts is None else _stranger(scope, told, self._hosts)

    def _tell(self, scope: Scope, exchange: Exchange) -> None:
        ms = self._runtime.clock.elapsed_ms() - exchange.arrived_ms
        self._metrics.answered(exchange.operation, exchange.status, None if exchange.waits else ms)
        raw = scope.get("raw_path") or b""
        self._log.info(
            "request",
            method=scope["method"],
            path=raw[:_LOGGED_PATH].decode("latin-1"),
            operation=exchange.operation,
            status=exchange.status,
            code=exchange.code,
            ms=round(ms, 2),
            principal=exchange.principal,
            request_id=exchange.request_id,
        )


def _look(scope: Scope) -> dict[bytes, bytes]:
    """The headers that are looked at here."""
    return {name: value for name, value in scope["headers"] if name in _LOOKED_AT}


def _stranger(scope: Scope, told: dict[bytes, bytes], hosts: frozenset[str]) -> Refusal | None:
    """Why a request does not come from this machine's user, whom the server takes it for.

    A page of another site could have its name lead here. And it may send a change without a question: a
    browser does not show it the answer, but the change would be made.
    """
    host = told.get(b"host", b"")
    if _host_name(host) not in hosts:
        return Refusal(
            403, "wrong_host", "this server is for its own machine, and not known by that name"
        )
    if scope["method"] in _READING:
        return None
    origin = told.get(b"origin")
    foreign = origin is not None and origin.lower().partition(b"://")[2] != host.lower()
    if foreign or told.get(b"sec-fetch-site", b"").lower() == b"cross-site":
        return Refusal(
            403, "cross_site", "a page of another site may change nothing here; nothing was done"
        )
    return None


def _host_name(host: bytes) -> str:
    """The name without its port; an IPv6 address keeps its brackets."""
    text = host.decode("latin-1").lower()
    if text.startswith("["):
        return text.partition("]")[0] + "]"
    return text.partition(":")[0]
