"""Replies, and their ETags: the version of an object, or the manifest that a list was read from (RFC 9110).

The version of an object is the commit that last changed it and a hash of its id: a name may refer to
another object than before, and objects that were changed together share a commit.
"""

import re
from dataclasses import dataclass, field
from functools import cached_property

from arco.api.http.asgi import EXCHANGE, Exchange, Scope, Send
from arco.catalog.decision import version_of
from arco.catalog.lookup import CommittedObject
from arco.catalog.snapshot import Snapshot
from arco.core.errors import Invalid

JSON = "application/json"
NEVER = -1  # no commit has this number, so an ETag that Arco did not write never matches

_TAG = re.compile(r'\s*(W/)?"([\x21\x23-\x7e\x80-\xff]*)"\s*')
_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")
_VERSION = re.compile(r"(0|[1-9][0-9]{0,17})-[0-9a-f]{8}")
_NO_BODY = frozenset({204, 304})
_REVALIDATE = (b"cache-control", b"private, no-cache")
_BODY_HEADERS = frozenset({b"content-type", b"content-length"})


@dataclass(frozen=True)
class Reply:
    """What is sent back."""

    status: int
    body: bytes = b""
    content_type: str = JSON
    headers: dict[str, str] = field(default_factory=dict)
    # Whether equal ETags mean equal replies: the schema of an object may be renamed without changing it.
    revalidates: bool = True

    @cached_property
    def raw_headers(self) -> list[tuple[bytes, bytes]]:
        """The headers as they are sent; encoded once, since a reply may be cached and sent again."""
        headers = [(b"x-content-type-options", b"nosniff")]
        headers += [(name.lower().encode(), text.encode()) for name, text in self.headers.items()]
        if self.status not in _NO_BODY:
            headers.append((b"content-type", self.content_type.encode()))
            headers.append((b"content-length", b"%d" % len(self.body)))
        return headers


async def send_reply(reply: Reply, scope: Scope, send: Send) -> None:
    """Send a reply with the request's id, or 304 if the client sent its ETag in If-None-Match."""
    status, body, headers = reply.status, reply.body, reply.raw_headers.copy()
    exchange: Exchange | None = scope.get(EXCHANGE)
    if scope["method"] in {"GET", "HEAD"}:
        etag = reply.headers.get("ETag")
        if etag is not None:
            headers.append(_REVALIDATE)
            if reply.revalidates and _client_has(scope, etag):
                status, body = 304, b""
                headers = [header for header in headers if header[0] not in _BODY_HEADERS]
        if scope["method"] == "HEAD":
            body = b""
    if exchange is not None:
        exchange.status = status
        headers.append((b"x-request-id", exchange.request_id.encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def object_tag(item: CommittedObject) -> str:
    """The ETag of one object."""
    return f'"{version_of(item)}"'


def snapshot_tag(snapshot: Snapshot) -> str:
    """The ETag of a reply that depends on a manifest and the URL; a restored store may reuse a number."""
    return f'"{snapshot.number}-{snapshot.sha256[:12]}"'


def expected_version(if_match: str | None) -> int | str | None:
    """What If-Match requires: the version of an object, or just its commit; None if any will do."""
    if if_match is None or if_match.strip() == "*":
        return None
    tags = _tags(if_match, "If-Match")
    if len(tags) != 1:
        raise Invalid("If-Match takes one ETag here")
    weak, tag = tags[0]
    if weak:
        return NEVER
    if _VERSION.fullmatch(tag) is not None:
        return tag
    return NEVER if _NUMBER.fullmatch(tag) is None else int(tag)


def is_unchanged(if_none_match: str, etag: str) -> bool:
    """Whether If-None-Match names this ETag; a header that is not a list of ETags names none."""
    if if_none_match.strip() == "*":
        return True
    try:
        return any(f'"{tag}"' == etag for _, tag in _tags(if_none_match, "If-None-Match"))
    except Invalid:
        return False


def _tags(text: str, header: str) -> list[tuple[bool, str]]:
    tags: list[tuple[bool, str]] = []
    at = 0
    while match := _TAG.match(text, at):
        tags.append((match[1] is not None, match[2]))
        at = match.end()
        if at == len(text):
            return tags
        if text[at] != ",":
            break
        at += 1
    raise Invalid(f'{header} is an ETag in double quotes, such as "17-2c1aa269", or *')


def _client_has(scope: Scope, etag: str) -> bool:
    for name, value in scope["headers"]:
        if name == b"if-none-match":
            return is_unchanged(value.decode("latin-1"), etag)
    return False
