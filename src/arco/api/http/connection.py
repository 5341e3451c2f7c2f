"""One connection: uvicorn's protocol with limits on everything that it would wait for or buffer forever.

uvicorn buffers headers of any length, and does not close a connection that sends a byte now and then. Here
the headers of a request must be complete within a time and a size, the number of connections is bounded,
and a client that does not read its answer is disconnected. One address may hold a quarter of a server's
connections with half-sent requests, so that clients at other addresses can still connect.
"""

import http
from collections import defaultdict
from typing import Any, Protocol

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from arco.api.http.asgi import ARRIVED
from arco.api.http.limits import HttpLimits
from arco.api.http.problem import CONTENT_TYPE, HttpError, encode_problem, problem_of
from arco.core.clock import SystemClock

_LARGE_BYTES = 64 * 1024  # not worth a copy to join it with a few headers
_HALF_SENT_SHARE = 4
# How long an address may exceed its share: of many connections opened at once, all that have a request to
# send have sent it by then.
_CROWDING_S = 0.25
_CHUNKED = b"chunked"
_CLOCK = SystemClock()


class CoalescingTransport:
    """A transport that joins the writes of one step of the event loop.

    uvicorn writes the head and the body of an answer separately; each would be a system call and a packet.
    """

    def __init__(self, transport: Any, loop: Any) -> None:
        self._transport = transport
        self._loop = loop
        self._pending: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send `data` in the next step of the loop, with what else is written until then."""
        if not self._pending:
            self._loop.call_soon(self._flush)
        self._pending.append(data)
        if len(data) > _LARGE_BYTES:
            self._flush()

    def close(self) -> None:
        """Send what is pending, then close."""
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._pending.clear()
        self._transport.abort()

    def get_write_buffer_size(self) -> int:
        """How many bytes were not sent yet."""
        unsent: int = self._transport.get_write_buffer_size()
        return unsent + sum(map(len, self._pending))

    def _flush(self) -> None:
        pending, self._pending = self._pending, []
        if not pending or self._transport.is_closing():
            return
        if len(pending[-1]) > _LARGE_BYTES:
            for data in pending:
                self._transport.write(data)
        else:
            self._transport.write(b"".join(pending))


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
    _in_headers = True
    _header_bytes = 0
    _unread_bytes = 0

    def connection_made(self, transport) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
        super().connection_made(transport)
        self.transport = CoalescingTransport(transport, self.loop)  # type: ignore[assignment]
        is_full = len(self.connections) > self.limits.connections
        if is_full and not self.half_sent.evict_for(self.address):
            self._refuse(_too_busy("too many connections"))
        else:
            self._start_timer()
            self._begin_half_sent()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._end_half_sent()
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
        self.half_sent.add(self)
        if self._crowding_timer is None and self.half_sent.is_crowding(self.address):
            self._crowding_timer = self.loop.call_later(_CROWDING_S, self._end_if_crowding)

    def _end_half_sent(self) -> None:
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
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._in_headers or self.cycle.response_complete:
            # Unfinished headers, or a body that no handler reads: both must end in time.
            self._start_timer()
        if self._in_headers:
            self._header_bytes += len(data)
            if self._header_bytes > self.limits.header_bytes:
                self._refuse(_headers_too_large(self.limits))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_headers, self._header_bytes = True, 0
        if not self.transport.is_closing():
            self._begin_half_sent()

    def on_headers_complete(self) -> None:
        self.scope[ARRIVED] = _CLOCK.elapsed_ms()  # type: ignore[literal-required]
        self._in_headers = False
        self._stop_timer()
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > self.limits.header_bytes:
            self._refuse(_headers_too_large(self.limits))
            return
        for name, coding in self.headers:
            if name == b"transfer-encoding" and coding.strip().lower() != _CHUNKED:
                self._refuse(_unknown_coding(coding))
                return
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._end_half_sent()
        if not self.transport.is_closing():
            super().on_message_complete()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection; abort one whose client read nothing since the last time-out."""
        unread = self.transport.get_write_buffer_size()
        if unread == 0:
            super().timeout_keep_alive_handler()
        elif unread == self._unread_bytes:
            self.transport.abort()
        else:
            self._unread_bytes = unread
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

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
