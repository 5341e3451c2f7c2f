"""Sending a reply, or nothing at all where the caller has it already."""

from starlette.types import Scope, Send

from arco.api.etag import is_unchanged
from arco.api.route import Reply

_REVALIDATE = (b"cache-control", b"private, no-cache")
_ABOUT_BODY = frozenset({b"content-type", b"content-length"})


async def send_reply(reply: Reply, scope: Scope, send: Send) -> None:
    """Send a reply, or 304 if the caller named its ETag."""
    status, body, headers = reply.status, reply.body, [*reply.raw_headers]
    if scope["method"] in {"GET", "HEAD"}:
        etag = reply.headers.get("ETag")
        if etag is not None:
            headers.append(_REVALIDATE)
            if reply.revalidates and _has_it(scope, etag):
                status, body = 304, b""
                headers = [each for each in headers if each[0] not in _ABOUT_BODY]
        if scope["method"] == "HEAD":
            body = b""
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _has_it(scope: Scope, etag: str) -> bool:
    for name, value in scope["headers"]:
        if name == b"if-none-match":
            return is_unchanged(value.decode("latin-1"), etag)
    return False
