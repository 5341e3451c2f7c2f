"""One connection: uvicorn's protocol, with an end to everything that it would wait or store for ever.

The parser below it keeps a header of any length, and nothing closes a connection that sends a byte now and
then. Here a request has a time and a size within which its headers must be complete, the number of
connections is bounded, and a caller that does not read its answer is let go. One address may hold a quarter
of the connections with requests that are not whole.
"""

import http
from typing import Protocol

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from arco.api.cork import Corked
from arco.api.exchange import ARRIVED
from arco.api.half_sent import HalfSentRequests
from arco.api.limits import Limits
from arco.api.problem import CONTENT_TYPE, Refusal, encode_problem, problem_of
from arco.core.clock import SystemClock

# So long a connection may be one too many of its address: of many that come at once, all have sent their
# requests by then, unless they have none to send.
_CROWDING_S = 0.25

_CHUNKED = b"chunked"
_CLOCK = SystemClock()  # what comes from outside comes in the machine's own time


class _Timer(Protocol):
    def cancel(self) -> None: ...


class BoundedConnection(HttpToolsProtocol):
    """A connection within limits."""

    limits = Limits()
    half_sent = HalfSentRequests(limits.connections)

    _crowding_timer: _Timer | None = None
    _timer: _Timer | None = None
    _in_headers = True
    _header_bytes = 0
    _unread_bytes = 0

    def connection_made(self, transport) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
        super().connection_made(transport)
        self.transport = Corked(transport, self.loop)  # type: ignore[assignment]
        is_full = len(self.connections) > self.limits.connections
        if is_full and not self.half_sent.make_room(self.address):
            self._refuse(_too_busy("too many connections"))
        else:
            self._arm()
            self._begin_half_sent()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        self._end_half_sent()
        super().connection_lost(exc)

    @property
    def address(self) -> str:
        """Where the connection comes from."""
        return "" if self.client is None else self.client[0]

    def end_half_sent(self) -> None:
        """Refuse a request that is not whole, so that others find room."""
        if not self.transport.is_closing():
            self._refuse(_too_busy("too many unfinished requests from this address"))
            self.connections.discard(self)  # or it would still count until the loop comes round

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
            return  # a refusal was sent, and what still comes is not for us
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._in_headers or self.cycle.response_complete:
            # Headers that go on and on, or a body that nobody waits for: both must end in time.
            self._arm()
        if self._in_headers:
            self._header_bytes += len(data)
            if self._header_bytes > self.limits.header_bytes:
                self._refuse(_too_large(self.limits))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_headers, self._header_bytes = True, 0
        if not self.transport.is_closing():
            self._begin_half_sent()

    def on_headers_complete(self) -> None:
        self.scope[ARRIVED] = _CLOCK.elapsed_ms()  # type: ignore[literal-required]
        self._in_headers = False
        self._disarm()
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > self.limits.header_bytes:
            self._refuse(_too_large(self.limits))
            return
        coding = next((text for name, text in self.headers if name == b"transfer-encoding"), b"")
        if coding and coding.strip().lower() != _CHUNKED:
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
        """Close what is idle; give up on an answer of which nothing was read since the last look."""
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
        self._refuse(Refusal(400, "not_http", msg))

    def _arm(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(self.limits.headers_ms / 1000, self._too_slow)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._timer = None
        if self.transport.is_closing():
            return
        self._refuse(Refusal(408, "too_slow", "the request did not arrive in time"))

    def _refuse(self, refusal: Refusal) -> None:
        """Answer without the application, and hang up."""
        self._end_half_sent()
        cycle = getattr(self, "cycle", None)
        if cycle is not None and not cycle.response_complete:
            self.transport.abort()  # another answer is under way, and this one would end up in it
            return
        body = encode_problem(problem_of(refusal))
        headers = {
            "content-type": CONTENT_TYPE,
            "content-length": str(len(body)),
            "connection": "close",
            **refusal.headers,
        }
        lines = [f"HTTP/1.1 {refusal.status} {http.HTTPStatus(refusal.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self.transport.write("\r\n".join([*lines, "", ""]).encode() + body)
        self.transport.close()


def _too_busy(detail: str) -> Refusal:
    return Refusal(503, "too_busy", detail, headers={"Retry-After": "1"})


def _unknown_coding(coding: bytes) -> Refusal:
    """For a body of which it is not known where it ends, or what it is packed in."""
    return Refusal(
        400,
        "not_http",
        f"the transfer coding {coding[:40].decode('latin-1')!r} is not known here",
        next_step="Send the body with Content-Length, or with Transfer-Encoding: chunked.",
    )


def _too_large(limits: Limits) -> Refusal:
    return Refusal(
        431, "headers_too_large", f"headers have at most {limits.header_bytes} bytes here"
    )
