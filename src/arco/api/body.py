"""Reading a body: bounded in size and time, JSON and nothing else, unless a route says so."""

import zlib

from starlette.types import Receive

from arco.api.problem import Refusal
from arco.core.errors import Invalid
from arco.core.tasks import Event, Tasks

_JSON = ("application/json", "application/merge-patch+json")
_GZIP = frozenset({b"gzip", b"x-gzip"})
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_AT_ONCE_BYTES = 64 * 1024  # of what is compressed; more is inflated beside other requests


class Gone(Exception):
    """The caller has left; nobody is there to be answered."""


async def read_body(
    headers: dict[bytes, bytes],
    receive: Receive,
    tasks: Tasks,
    *,
    most_bytes: int,
    most_ms: float,
    inflates: bool = False,
    also: tuple[str, ...] = (),
) -> bytes:
    """All of a request's body, or a refusal of 408, 413 or 415; `inflates` one that is compressed.

    `also` are content types that are taken besides JSON.
    """
    announced = headers.get(b"content-length", b"0")
    if len(announced) > 18 or int(announced) > most_bytes:  # the server has made sure it is digits
        raise _too_large(most_bytes)
    is_packed = _is_packed(headers, inflates=inflates)
    try:
        body = await tasks.deadline(most_ms, _collect(receive, most_bytes))
    except TimeoutError:
        raise Refusal(
            408,
            "too_slow",
            f"the body did not arrive within {most_ms:.0f} ms",
            headers={"Connection": "close"},
        ) from None
    _check_type(headers, body, also)
    if not is_packed or not body:
        return body
    if len(body) <= _AT_ONCE_BYTES:
        return _inflate(body, most_bytes)
    return await tasks.in_thread(lambda: _inflate(body, most_bytes))


async def until_gone(receive: Receive, left: Event) -> None:
    """Wait until the caller has left; only once there is nothing of its body to be read any more."""
    while (await receive())["type"] != "http.disconnect":
        pass
    left.set()


async def _collect(receive: Receive, most_bytes: int) -> bytes:
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Gone
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > most_bytes:
            raise _too_large(most_bytes)
        parts.append(part)
        more = message.get("more_body", False)
    return b"".join(parts)


def _too_large(most_bytes: int) -> Refusal:
    # What still comes is not read, so the connection cannot be used again.
    return Refusal(
        413,
        "body_too_large",
        f"a body has at most {most_bytes} bytes here",
        headers={"Connection": "close"},
    )


def _is_packed(headers: dict[bytes, bytes], *, inflates: bool) -> bool:
    """Whether the body is compressed. It may hide a bomb, so only large ones are worth it."""
    encoding = headers.get(b"content-encoding", b"identity").strip().lower()
    if encoding == b"identity":
        return False
    if inflates and encoding in _GZIP:
        return True
    raise Refusal(
        415,
        "compressed_body",
        "bodies are compressed by gzip or not at all here"
        if inflates
        else "compressed bodies are not read here",
        next_step="Send the body as it is, without Content-Encoding.",
        headers={"Connection": "close"},
    )


def _inflate(packed: bytes, most_bytes: int) -> bytes:
    """What was compressed; never more than one byte beyond the limit is held."""
    inflater = zlib.decompressobj(_GZIP_WINDOW)
    try:
        body = inflater.decompress(packed, most_bytes + 1)
    except zlib.error as problem:
        raise Invalid("the body is not what gzip writes") from problem
    if len(body) > most_bytes:
        raise _too_large(most_bytes)
    if not inflater.eof or inflater.unused_data:
        raise Invalid("the body is not one whole gzip stream")
    return body


def media_type(given: bytes) -> str:
    """The type in a Content-Type, without its parameters."""
    return given.partition(b";")[0].strip().lower().decode("latin-1")


def _check_type(headers: dict[bytes, bytes], body: bytes, also: tuple[str, ...]) -> None:
    """A type is demanded, so that no page of another site can post here without asking first."""
    given = headers.get(b"content-type")
    if given is None and not body:
        return
    if given is None or media_type(given) not in (*_JSON, *also):
        others = f", or one of {', '.join(also)}" if also else ""
        raise Refusal(
            415,
            "not_json",
            f"a body is JSON here{others}",
            next_step="Send the header Content-Type: application/json.",
        )
