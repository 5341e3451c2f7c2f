"""Reading a body: bounded in size and time, JSON and nothing else."""

from starlette.types import Receive

from arco.api.problem import Refusal
from arco.core.tasks import Tasks

_JSON = frozenset({b"application/json", b"application/merge-patch+json"})


class Gone(Exception):
    """The caller has left; nobody is there to be answered."""


async def read_body(
    headers: dict[bytes, bytes], receive: Receive, tasks: Tasks, *, most_bytes: int, most_ms: float
) -> bytes:
    """All of a request's body, or a refusal of 408, 413 or 415."""
    announced = headers.get(b"content-length", b"0")
    if len(announced) > 18 or int(announced) > most_bytes:  # the server has made sure it is digits
        raise _too_large(most_bytes)
    _check_encoding(headers)
    try:
        body = await tasks.deadline(most_ms, _collect(receive, most_bytes))
    except TimeoutError:
        raise Refusal(
            408,
            "too_slow",
            f"the body did not arrive within {most_ms:.0f} ms",
            headers={"Connection": "close"},
        ) from None
    _check_type(headers, body)
    return body


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


def _check_encoding(headers: dict[bytes, bytes]) -> None:
    """A compressed body may hide a bomb, and a catalog's requests are small."""
    if headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
        raise Refusal(
            415,
            "compressed_body",
            "compressed bodies are not read here",
            next_step="Send the body as it is, without Content-Encoding.",
            headers={"Connection": "close"},
        )


def _check_type(headers: dict[bytes, bytes], body: bytes) -> None:
    """A type is demanded, so that no page of another site can post here without asking first."""
    given = headers.get(b"content-type")
    if given is None and not body:
        return
    if given is None or given.partition(b";")[0].strip().lower() not in _JSON:
        raise Refusal(
            415,
            "not_json",
            "a body is JSON here",
            next_step="Send the header Content-Type: application/json.",
        )
