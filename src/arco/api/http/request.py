"""One request: what a handler is called with, and how its query parameters and its body are read.

Query parameters are strict, because a misspelt one changes the answer: unknown names, repetitions and
values of another type are 400; numbers and booleans have one spelling each. A body is bounded in size and
time, and is JSON unless its route takes other types.
"""

import re
import zlib
from collections.abc import Callable
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Generic,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec import Meta

from arco.access.authorization import Operation
from arco.access.principal import LOCAL_USER, Principal
from arco.api.http.asgi import Receive
from arco.api.http.limits import MAX_PAGE_SIZE, PAGE_SIZE
from arco.api.http.problem import HttpError
from arco.catalog.snapshot import Snapshot
from arco.core.errors import Invalid
from arco.core.json import explain
from arco.core.tasks import AsyncEvent, Tasks

Q = TypeVar("Q", bound="QueryParams")
B = TypeVar("B")

_POINT = (
    "^([0-9]{1,18}|[0-9A-HJKMNP-TV-Z]{26}"
    "|[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9:.]{4,16}([Zz]|[+-][0-9:]{2,6}))$"
)
AsOf = Annotated[
    str,
    Meta(
        max_length=64,
        description="A manifest number, a commit's ULID, or a time such as 2026-01-31T12:00:00Z.",
        extra_json_schema={"pattern": _POINT},  # not checked here: the catalog's error says more
    ),
]
# Not checked here: the catalog knows the full rules of names, and its errors say more.
NAME_PATTERN = r"^[^\u0000-\u001f\u007f-\u009f/\\]+$"
PageSize = Annotated[int, Meta(ge=1, le=MAX_PAGE_SIZE)]
PageToken = Annotated[
    str, Meta(max_length=32_768, description="`next_page_token` of the page before.")
]
Freshness = Annotated[
    Literal["published", "fresh"],
    Meta(description="`fresh` adds what was acknowledged and is not compacted yet."),
]

_NUMBER = re.compile(r"-?[0-9]{1,18}")
_BOOLEANS = {"true": True, "false": False}
_JSON_TYPES = ("application/json", "application/merge-patch+json")
_GZIP = frozenset({b"gzip", b"x-gzip"})
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_INLINE_BYTES = 64 * 1024  # of a compressed body; a larger one is decompressed in a thread
_MAX_USER_AGENT = 200


class QueryParams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """No parameters."""


class LenientQuery(QueryParams, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """Unknown parameters are ignored, for protocols whose clients may be newer than this server."""


class AtQuery(QueryParams, frozen=True, kw_only=True):
    """A read, now or as of an earlier point."""

    as_of: AsOf | None = None


class PageQuery(AtQuery, frozen=True, kw_only=True):
    """A list, page by page. All pages are of the manifest that the first one was read from."""

    page_size: PageSize = PAGE_SIZE
    page_token: PageToken | None = None


class ListQuery(PageQuery, frozen=True, kw_only=True):
    """A list of objects; `dropped` lists those that were dropped and can be undropped."""

    dropped: bool = False


class SchemaListQuery(ListQuery, frozen=True, kw_only=True):
    """Schemas directly in `parent` (levels joined by 0x1F), or at the top of the catalog."""

    parent: str | None = None


class TableListQuery(ListQuery, frozen=True, kw_only=True):
    """Tables of a schema, with their columns if requested."""

    include: Literal["columns"] | None = None


class ObjectQuery(AtQuery, frozen=True, kw_only=True):
    """An object by its id; `dropped` finds it also if it was dropped."""

    dropped: bool = False


class DropQuery(QueryParams, frozen=True, kw_only=True):
    """`force` drops a container with everything in it."""

    force: bool = False


class DiffQuery(QueryParams, frozen=True, kw_only=True, rename={"from_": "from"}):
    """From one point to another; without `to`, to the newest."""

    from_: AsOf
    to: AsOf | None = None
    page_size: PageSize = PAGE_SIZE
    page_token: PageToken | None = None


class Call(Generic[Q, B]):
    """One request. `query` and `body` are set after the request was authorized."""

    __slots__ = (
        *("operation", "principal", "path_params", "path", "query_string", "headers", "arrived_ms"),
        *("query", "body", "head", "unresolved_ids", "resolved_names", "disconnected", "address"),
    )

    query: Q
    body: B

    def __init__(
        self,
        *,
        operation: Operation,
        principal: Principal,
        path_params: dict[str, str],
        path: bytes,
        query_string: bytes,
        headers: dict[bytes, bytes],
        arrived_ms: float,
        address: str = "",
    ) -> None:
        self.operation = operation
        self.principal = principal
        self.path_params = path_params  # values of the path's {placeholders}
        self.path = path
        self.query_string = query_string
        self.headers = headers
        self.arrived_ms = arrived_ms
        self.address = address  # of the client
        self.head: Snapshot | None = None  # the newest, where it was read already
        self.unresolved_ids: frozenset[str] = frozenset()  # of tables whose names are unresolved
        self.resolved_names = False  # a name was resolved for this reply, so it cannot be cached
        self.disconnected: AsyncEvent | None = (
            None  # of a long poll: set once the client disconnects
        )

    @property
    def caller(self) -> str:
        """Whose share of the SQL processes is used: the principal or, without identities, the address."""
        name = self.principal.name
        return f"{name}@{self.address}" if name == LOCAL_USER else name

    @property
    def engine(self) -> str | None:
        """The engine that sent the request."""
        return engine_of(self.headers.get(b"user-agent"))

    def header(self, name: bytes) -> str | None:
        """The value of a header; its name in lower case."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")


def engine_of(user_agent: bytes | None) -> str | None:
    """The User-Agent of a client, bounded and printable."""
    text = (user_agent or b"")[:_MAX_USER_AGENT].decode("latin-1")
    return "".join(filter(str.isprintable, text)).strip() or None


def read_query(raw: bytes, query_type: type[Q]) -> Q:
    """`raw` as a `query_type`, or `Invalid`."""
    if not raw:
        return cast("Q", _empty(query_type))
    fields = _fields(query_type)
    values: dict[str, object] = {}
    for pair in raw.split(b"&"):
        if not pair:
            continue
        name, _, text = (_unescape(part) for part in pair.partition(b"="))
        if name not in fields:
            if not query_type.__struct_config__.forbid_unknown_fields:
                continue
            listed = f"; known are {', '.join(fields)}" if fields else "; this route takes none"
            raise Invalid(f"unknown parameter {name[:80]!r}{listed}")
        if name in values:
            raise Invalid(f"the parameter {name!r} is there twice")
        values[name] = fields[name](name, text)
    return _convert(values, query_type)


@cache  # they are frozen, and most requests have none
def _empty(query_type: type[QueryParams]) -> QueryParams:
    return _convert({}, query_type)


def _convert(values: dict[str, object], query_type: type[Q]) -> Q:
    try:
        return msgspec.convert(values, query_type)
    except msgspec.ValidationError as problem:
        raise Invalid(f"the query is not valid: {explain(problem)}") from problem


def _unescape(raw: bytes) -> str:
    try:
        return unquote_to_bytes(raw.replace(b"+", b" ")).decode()
    except UnicodeDecodeError as problem:
        raise Invalid("a parameter is not valid UTF-8") from problem


@cache
def _fields(query_type: type[QueryParams]) -> dict[str, Callable[[str, str], object]]:
    """How to parse each parameter, by its name on the wire."""
    hints = get_type_hints(query_type)
    fields = msgspec.structs.fields(query_type)
    return {field.encode_name: _parser(hints[field.name]) for field in fields}


def _parser(hint: object) -> Callable[[str, str], object]:
    types = [each for each in _alternatives(hint) if each is not NoneType]
    if types == [int]:
        return _number
    if types == [bool]:
        return _boolean
    return lambda _name, text: text


def _alternatives(hint: object) -> list[object]:
    if get_origin(hint) is Annotated:
        return _alternatives(get_args(hint)[0])
    if get_origin(hint) in {Union, UnionType}:
        return [each for arg in get_args(hint) for each in _alternatives(arg)]
    return [hint]


def _number(name: str, text: str) -> int:
    if _NUMBER.fullmatch(text) is None:
        raise Invalid(f"the parameter {name!r} is a whole number, not {text[:40]!r}")
    return int(text)


def _boolean(name: str, text: str) -> bool:
    if text not in _BOOLEANS:
        raise Invalid(f"the parameter {name!r} is true or false, not {text[:40]!r}")
    return _BOOLEANS[text]


class ClientDisconnected(Exception):
    """The client has disconnected, so no answer can be sent."""


async def wait_for_disconnect(receive: Receive, disconnected: AsyncEvent) -> None:
    """Set `disconnected` once the client disconnects; call it after the body was read."""
    while (await receive())["type"] != "http.disconnect":
        pass
    disconnected.set()


async def read_body(
    headers: dict[bytes, bytes],
    receive: Receive,
    tasks: Tasks,
    *,
    max_bytes: int,
    max_ms: float,
    accepts_gzip: bool = False,
    other_types: tuple[str, ...] = (),
) -> bytes:
    """The body of a request, decompressed; `HttpError` 408, 413 or 415.

    `other_types` are content types that are accepted besides JSON.
    """
    length = headers.get(b"content-length", b"0")
    if len(length) > 18 or int(length) > max_bytes:  # the server has checked that these are digits
        raise _body_too_large(max_bytes)
    is_gzip = _is_gzip(headers, accepts_gzip=accepts_gzip)
    try:
        body = await tasks.deadline(max_ms, _collect(receive, max_bytes))
    except TimeoutError:
        raise HttpError(
            408,
            "too_slow",
            f"the body did not arrive within {max_ms:.0f} ms",
            headers={"Connection": "close"},
        ) from None
    _check_type(headers, body, other_types)
    if not is_gzip or not body:
        return body
    if len(body) <= _INLINE_BYTES:
        return _decompress(body, max_bytes)
    return await tasks.in_thread(lambda: _decompress(body, max_bytes))


async def _collect(receive: Receive, max_bytes: int) -> bytes:
    chunks: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnected
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > max_bytes:
            raise _body_too_large(max_bytes)
        chunks.append(chunk)
        more = message.get("more_body", False)
    return b"".join(chunks)


def _body_too_large(max_bytes: int) -> HttpError:
    # The rest of the body is not read, so the connection cannot be reused.
    return HttpError(
        413,
        "body_too_large",
        f"a body has at most {max_bytes} bytes here",
        headers={"Connection": "close"},
    )


def _is_gzip(headers: dict[bytes, bytes], *, accepts_gzip: bool) -> bool:
    """Whether the body is compressed; only routes with large bodies accept that."""
    encoding = headers.get(b"content-encoding", b"identity").strip().lower()
    if encoding == b"identity":
        return False
    if accepts_gzip and encoding in _GZIP:
        return True
    raise HttpError(
        415,
        "compressed_body",
        "bodies are compressed by gzip or not at all here"
        if accepts_gzip
        else "compressed bodies are not read here",
        next_step="Send the body as it is, without Content-Encoding.",
        headers={"Connection": "close"},
    )


def _decompress(compressed: bytes, max_bytes: int) -> bytes:
    """The decompressed body; at most one byte more than the limit is ever in memory."""
    decompressor = zlib.decompressobj(_GZIP_WINDOW)
    try:
        body = decompressor.decompress(compressed, max_bytes + 1)
    except zlib.error as problem:
        raise Invalid("the body is not what gzip writes") from problem
    if len(body) > max_bytes:
        raise _body_too_large(max_bytes)
    if not decompressor.eof or decompressor.unused_data:
        raise Invalid("the body is not one whole gzip stream")
    return body


def media_type(content_type: bytes) -> str:
    """The type in a Content-Type, without its parameters."""
    return content_type.partition(b";")[0].strip().lower().decode("latin-1")


def _check_type(headers: dict[bytes, bytes], body: bytes, other_types: tuple[str, ...]) -> None:
    """Require a content type, so that a page of another site cannot post without a preflight request."""
    content_type = headers.get(b"content-type")
    if content_type is None and not body:
        return
    if content_type is None or media_type(content_type) not in (*_JSON_TYPES, *other_types):
        others = f", or one of {', '.join(other_types)}" if other_types else ""
        raise HttpError(
            415,
            "not_json",
            f"a body is JSON here{others}",
            next_step="Send the header Content-Type: application/json.",
        )
