"""One connection: uvicorn's protocol with limits on everything that it would wait for or buffer forever.

uvicorn buffers headers of any length, and does not close a connection that sends a byte now and then. Here
the headers of a request must be complete within a time and a size, the number of connections is bounded,
and a client that does not read its answer is disconnected. One address may hold a quarter of a server's
connections with half-sent requests, so that clients at other addresses can still connect.

Every request passes here, so what costs most in uvicorn is replaced: what it does at the end of the
headers, how it sends an answer, and that it sets a timer after each.
"""

import http
import re
from collections import defaultdict
from typing import Protocol, cast
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from arco.api.http.asgi import ARRIVED, Message, Scope
from arco.api.http.limits import HttpLimits
from arco.api.http.problem import CONTENT_TYPE, HttpError, encode_problem, problem_of
from arco.core.clock import SystemClock
from arco.core.tasks import AsyncioEvent

_LARGE_BYTES = 64 * 1024  # not worth a copy to join it with a few headers
_HALF_SENT_SHARE = 4
# How long an address may exceed its share: of many connections opened at once, all that have a request to
# send have sent it by then.
_CROWDING_S = 0.25
_CHUNKED = b"chunked"
_CLOCK = SystemClock()
_ASGI = {"version": "3.0", "spec_version": "2.3"}
_NO_BODY = frozenset({204, 304})
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")  # in the value of a header


class HalfSentRequest(Protocol):
    """A connection whose request is not complete."""

    @property
    def address(self) -> str:
        """The address of the client."""

    def end_half_sent(self) -> None:
        """Refuse the request, because its address holds too many connections."""


class HalfSentRequests:
    """The half-sent requests of one server by address, oldest first.

    A connection counts from its start, and again from the first byte of each further request, until its
    request is complete.
    """

    def __init__(self, connections: int) -> None:
        self._max_per_address = max(1, connections // _HALF_SENT_SHARE)
        self._by_address: defaultdict[str, dict[HalfSentRequest, None]] = defaultdict(dict)

    def add(self, request: HalfSentRequest) -> None:
        """Count a request that has begun to arrive."""
        self._by_address[request.address][request] = None

    def remove(self, request: HalfSentRequest) -> None:
        """Stop counting a request that is complete, or whose connection has ended."""
        requests = self._by_address.get(request.address)
        if requests is not None:
            requests.pop(request, None)
            if not requests:
                del self._by_address[request.address]

    def is_crowding(self, address: str) -> bool:
        """Whether an address holds more than its share."""
        return len(self._by_address.get(address, ())) > self._max_per_address

    def evict_for(self, newcomer: str) -> bool:
        """End the oldest request of the address that holds most, if it is another one and crowding."""
        if not self._by_address:
            return False
        address, requests = max(self._by_address.items(), key=lambda item: len(item[1]))
        if address == newcomer or not self.is_crowding(address):
            return False
        next(iter(requests)).end_half_sent()
        return True


class _Timer(Protocol):
    def cancel(self) -> None: ...


class BoundedConnection(HttpToolsProtocol):
    """A connection within limits."""

    limits = HttpLimits()
    half_sent = HalfSentRequests(limits.connections)

    _crowding_timer: _Timer | None = None
    _timer: _Timer | None = None
    _is_receiving = True  # a request, or the first one is awaited
    _is_half_sent = False  # is counted as such
    _in_headers = True
    _header_bytes = 0  # received for the headers, and at most this many are headers
    _data_bytes = 0
    _unread_bytes = 0
    _answered_ms = 0.0

    def connection_made(self, transport) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
        super().connection_made(transport)
        is_full = len(self.connections) > self.limits.connections
        if is_full and not self.half_sent.evict_for(self.address):
            self._refuse(_too_busy("too many connections"))
        else:
            self._start_timer()
            self._begin_half_sent()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._end_half_sent()
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
        super().connection_lost(exc)

    @property
    def address(self) -> str:
        """The address of the client."""
        return "" if self.client is None else self.client[0]

    def end_half_sent(self) -> None:
        """Refuse the request, because its address holds too many connections."""
        if not self.transport.is_closing():
            self._refuse(_too_busy("too many unfinished requests from this address"))
            self.connections.discard(self)  # or it would count until the loop has closed it

    def _begin_half_sent(self) -> None:
        self._is_half_sent = True
        self.half_sent.add(self)
        if self._crowding_timer is None and self.half_sent.is_crowding(self.address):
            self._crowding_timer = self.loop.call_later(_CROWDING_S, self._end_if_crowding)

    def _end_half_sent(self) -> None:
        self._is_half_sent = False
        self.half_sent.remove(self)
        if self._crowding_timer is not None:
            self._crowding_timer.cancel()
            self._crowding_timer = None

    def _end_if_crowding(self) -> None:
        self._crowding_timer = None
        if self.half_sent.is_crowding(self.address):
            self.end_half_sent()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return  # the request was refused: ignore the rest of it
        self._data_bytes = len(data)
        if self._in_headers:
            self._header_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._is_receiving and not self._is_half_sent:
            self._begin_half_sent()
        if self._in_headers or self.cycle.response_complete:
            # Unfinished headers, or a body that no handler reads: both must end in time.
            self._start_timer()
        if self._in_headers and self._header_bytes > self.limits.header_bytes:
            self._refuse(_headers_too_large(self.limits))

    def on_message_begin(self) -> None:
        self.url, self.headers, self.expect_100_continue = b"", [], False
        self._is_receiving, self._in_headers = True, True
        self._header_bytes = self._data_bytes

    def on_headers_complete(self) -> None:
        arrived_ms = _CLOCK.elapsed_ms()
        self._in_headers = False
        if self._timer is not None:
            self._stop_timer()
        if self._header_bytes > self.limits.header_bytes:
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > self.limits.header_bytes:
                self._refuse(_headers_too_large(self.limits))
                return
        for name, coding in self.headers:
            if name == b"transfer-encoding" and coding.strip().lower() != _CHUNKED:
                self._refuse(_unknown_coding(coding))
                return
        self._start_cycle(arrived_ms)

    def _start_cycle(self, arrived_ms: float) -> None:
        """Pass the request to the application; a pipelined one waits for the answer before it."""
        url = httptools.parse_url(self.url)
        path = url.path.decode("ascii")
        http_version = self.parser.get_http_version()
        scope: Scope = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": http_version,
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "root_path": "",
            "method": self.parser.get_method().decode("ascii"),
            "path": unquote(path) if "%" in path else path,
            "raw_path": url.path,
            "query_string": url.query or b"",
            "headers": self.headers,
            ARRIVED: arrived_ms,
        }
        self.scope = scope  # type: ignore[assignment]
        previous: RequestResponseCycle | None = self.cycle
        keep_alive = http_version != "1.0" and self.parser.should_keep_alive()
        self.cycle = _Cycle(self, scope, keep_alive=keep_alive)
        if previous is None or previous.response_complete:
            self._start_asgi_task(self.cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))

    def on_body(self, body: bytes) -> None:
        if not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._is_receiving = False
        if self._is_half_sent:
            self._end_half_sent()
        if not self.transport.is_closing():
            self.cycle.more_body = False
            cast("_Cycle", self.cycle).wake()

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            return
        self._answered_ms = _CLOCK.elapsed_ms()
        if self.timeout_keep_alive_task is None:
            self._start_keep_alive(self.timeout_keep_alive)

    def _unset_keepalive_if_required(self) -> None:
        """Let the timer run: it looks what has happened when it fires, and need not be set each time."""

    def _start_keep_alive(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(
            seconds, self.timeout_keep_alive_handler
        )

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection; abort one whose client read nothing since the last time-out."""
        self.timeout_keep_alive_task = None
        if not self.cycle.response_complete:
            return  # the answer will start the timer
        left_s = self.timeout_keep_alive - (_CLOCK.elapsed_ms() - self._answered_ms) / 1000
        if left_s > 0 or self._timer is not None:  # what began to arrive has a timer of its own
            self._start_keep_alive(max(left_s, 1))
            return
        unread = self.transport.get_write_buffer_size()
        if unread == 0:
            super().timeout_keep_alive_handler()
        elif unread == self._unread_bytes:
            self.transport.abort()
        else:
            self._unread_bytes = unread
            self._start_keep_alive(self.timeout_keep_alive)

    def send_400_response(self, msg: str) -> None:
        self._refuse(HttpError(400, "not_http", msg))

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(self.limits.headers_ms / 1000, self._time_out)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self._refuse(HttpError(408, "too_slow", "the request did not arrive in time"))

    def _refuse(self, error: HttpError) -> None:
        """Answer without the application, and close the connection."""
        self._end_half_sent()
        cycle = getattr(self, "cycle", None)
        if cycle is not None and not cycle.response_complete:
            self.transport.abort()  # another answer is being written, and this one would corrupt it
            return
        body = encode_problem(problem_of(error))
        headers = {
            "content-type": CONTENT_TYPE,
            "content-length": str(len(body)),
            "connection": "close",
            **error.headers,
        }
        lines = [f"HTTP/1.1 {error.status} {http.HTTPStatus(error.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self.transport.write("\r\n".join([*lines, "", ""]).encode() + body)
        self.transport.close()


class _Cycle(RequestResponseCycle):
    """uvicorn's cycle of one request, for answers in one piece: head and body are written together."""

    disconnected = response_started = response_complete = False
    more_body = True
    _event: AsyncioEvent | None = None
    _status = 500
    _headers: list[tuple[bytes, bytes]]

    def __init__(self, connection: BoundedConnection, scope: Scope, *, keep_alive: bool) -> None:
        # uvicorn's sets twice as much for each request.
        self.scope = scope  # type: ignore[assignment]
        self.transport = connection.transport
        self.flow = connection.flow
        self.logger = connection.logger
        self.default_headers = connection.server_state.default_headers
        self.on_response = connection.on_response_complete
        self.waiting_for_100_continue = connection.expect_100_continue
        self.keep_alive = keep_alive
        self.body = bytearray()

    @property
    def message_event(self) -> AsyncioEvent:  # type: ignore[override]
        """Set when there is something to receive; made for the first that waits for it."""
        if self._event is None:
            self._event = AsyncioEvent()
            if self.body or not self.more_body or self.response_complete or self.disconnected:
                self._event.set()
        return self._event

    def wake(self) -> None:
        """Let the handler receive what there is."""
        if self._event is not None:
            self._event.set()

    async def send(self, message: Message) -> None:  # type: ignore[override]
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        if not self.response_started:
            self.response_started, self.waiting_for_100_continue = True, False
            self._status, self._headers = message["status"], message["headers"]
            return
        if self.response_complete or message.get("more_body"):
            raise RuntimeError("an answer is sent in one piece, and once")
        self._write(message["body"])
        self.response_complete = True
        self.wake()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()

    def _write(self, body: bytes) -> None:
        if _CONTROL.search(b"".join([value for _, value in self._headers])):
            raise RuntimeError("the value of a header has a control character")
        parts, has_length = [STATUS_LINE[self._status]], self._status in _NO_BODY
        for name, value in self.default_headers + self._headers:
            if name == b"content-length":
                has_length = True
            elif name == b"connection":
                self.keep_alive = self.keep_alive and value.lower() != b"close"
                continue
            parts += (name, b": ", value, b"\r\n")
        if not has_length:
            parts.append(b"content-length: %d\r\n" % len(body))
        parts.append(b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n")
        if len(body) > _LARGE_BYTES:
            self.transport.writelines((*parts, body))
        else:
            self.transport.write(b"".join((*parts, body)))


def _too_busy(detail: str) -> HttpError:
    return HttpError(503, "too_busy", detail, headers={"Retry-After": "1"})


def _unknown_coding(coding: bytes) -> HttpError:
    return HttpError(
        400,
        "not_http",
        f"the transfer coding {coding[:40].decode('latin-1')!r} is not known here",
        next_step="Send the body with Content-Length, or with Transfer-Encoding: chunked.",
    )


def _headers_too_large(limits: HttpLimits) -> HttpError:
    return HttpError(
        431, "headers_too_large", f"headers have at most {limits.header_bytes} bytes here"
    )
