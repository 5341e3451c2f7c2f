"""Spans, through the API of OpenTelemetry alone: without its SDK they cost next to nothing and go nowhere.

A caller's `traceparent` is honoured and handed on. A span carries the operation, the route's pattern and
the status; never a URL, a name, a header or the words of an error.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from arco.api.exchange import Exchange

_PROPAGATOR = TraceContextTextMapPropagator()


class Tracing:
    """The spans of one process."""

    def __init__(self, provider: trace.TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("arco.api", tracer_provider=provider)

    def start(self, method: str, traceparent: bytes | None) -> Span:
        """The span of a request, below the caller's if there is one."""
        context = None
        if traceparent is not None:
            context = _PROPAGATOR.extract({"traceparent": traceparent.decode("latin-1")})
        return self._tracer.start_span(method, context, SpanKind.SERVER)

    def end(self, span: Span, exchange: Exchange, method: str) -> None:
        """Say what became of the request."""
        if span.is_recording():
            span.update_name(f"{method} {exchange.route}" if exchange.route else method)
            span.set_attributes(
                {
                    "http.request.method": method,
                    "http.route": exchange.route,
                    "http.response.status_code": exchange.status,
                    "arco.operation": exchange.operation,
                    "arco.request_id": exchange.request_id,
                }
            )
            if exchange.status >= 500:
                span.set_status(Status(StatusCode.ERROR, exchange.code))
        span.end()


def within(span: Span) -> AbstractContextManager[object]:
    """Make the span current, where it leads anywhere: others then hand it on."""
    if not span.get_span_context().is_valid:
        return nullcontext()
    return trace.use_span(
        span, end_on_exit=False, record_exception=False, set_status_on_exception=False
    )


def outgoing() -> Mapping[str, str]:
    """The headers that carry the current span to another process."""
    headers: dict[str, str] = {}
    _PROPAGATOR.inject(headers)
    return headers
