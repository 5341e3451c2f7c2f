"""Log lines and spans of requests, free of secrets.

A log line is JSON. It never has a query string, or a header but the request's id. An error of Arco is
logged with its message unless that contains a path, an address or a secret; any other error with its type
and the code locations that it passed through. Spans go through the OpenTelemetry API alone: without its SDK
they cost next to nothing. They carry the operation, the route's pattern and the status.
"""

import logging
import traceback
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from arco.api.http.asgi import Exchange
from arco.core import json
from arco.core.clock import Clock, utc

_MAX_PLACES = 12
_NO_SPAN = nullcontext()
_PROPAGATOR = TraceContextTextMapPropagator()


class Log:
    """Writes lines of JSON to `stream`, with times of `clock`; lines below `level` cost nothing."""

    def __init__(self, stream: BinaryIO, clock: Clock, *, level: int = logging.INFO) -> None:
        self._stream = stream
        self._clock = clock
        self._level = level

    def is_enabled_for(self, level: int) -> bool:
        """Whether lines of a level are written."""
        return level >= self._level

    def debug(self, event: str, **fields: object) -> None:
        """Log what helps to find a defect."""
        self._write(logging.DEBUG, "debug", event, fields)

    def info(self, event: str, **fields: object) -> None:
        """Log what happened."""
        self._write(logging.INFO, "info", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """Log what an operator may have to act on."""
        self._write(logging.WARNING, "warning", event, fields)

    def error(self, event: str, **fields: object) -> None:
        """Log what an operator has to act on."""
        self._write(logging.ERROR, "error", event, fields)

    def _write(self, level: int, name: str, event: str, fields: dict[str, object]) -> None:
        if level < self._level:
            return
        line = {"at": utc(self._clock.now_ms()), "level": name, **fields, "event": event}
        self._stream.write(json.encode(line) + b"\n")
        self._stream.flush()


def frames(error: BaseException) -> list[str]:
    """The files and functions that an error passed through, without its message."""
    frames = traceback.extract_tb(error.__traceback__)[-_MAX_PLACES:]
    return [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]


class LibraryLogHandler(logging.Handler):
    """Writes the log records of libraries to our log, with the types of their exceptions only."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.INFO)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        fields: dict[str, Any] = {"logger": record.name}
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            fields |= {"error": type(error).__name__, "places": frames(error)}
        self._method(record.levelno)(record.msg.strip(), **fields)

    def _method(self, level: int) -> Callable[..., Any]:
        if level >= logging.ERROR:
            return self._log.error
        return self._log.warning if level >= logging.WARNING else self._log.info


class RequestTracing:
    """The spans of one process. A client's `traceparent` is honoured and passed on."""

    def __init__(self, provider: trace.TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("arco.api", tracer_provider=provider)

    def start(self, method: str, traceparent: bytes | None) -> Span:
        """The span of a request, a child of the client's if there is one."""
        context = None
        if traceparent is not None:
            context = _PROPAGATOR.extract({"traceparent": traceparent.decode("latin-1")})
        return self._tracer.start_span(method, context, SpanKind.SERVER)

    def end(self, span: Span, exchange: Exchange, method: str) -> None:
        """Record the outcome of the request."""
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


def use_span(span: Span) -> AbstractContextManager[object]:
    """Make a span the current one, if it is recorded, so that calls to other processes carry it."""
    if not span.get_span_context().is_valid:
        return _NO_SPAN
    return trace.use_span(
        span, end_on_exit=False, record_exception=False, set_status_on_exception=False
    )


def trace_headers() -> Mapping[str, str]:
    """The headers that carry the current span to another process."""
    headers: dict[str, str] = {}
    _PROPAGATOR.inject(headers)
    return headers
