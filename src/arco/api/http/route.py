"""A route as data: method, path, operation, handler, and types of its parameters, body and responses."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from arco.access.authorization import Operation, TargetKind
from arco.api.http.reply import JSON, Reply
from arco.api.http.request import Call, QueryParams
from arco.core import json

Q = TypeVar("Q", bound=QueryParams)
B = TypeVar("B")

# By the name of the placeholder, the innermost first. A view is a table to the catalog.
_TARGETS = {
    "table": TargetKind.TABLE,
    "table_id": TargetKind.TABLE,
    "view": TargetKind.TABLE,
    "schema": TargetKind.SCHEMA,
    "namespace": TargetKind.SCHEMA,
    "catalog": TargetKind.CATALOG,
    "prefix": TargetKind.CATALOG,
    "id": TargetKind.OBJECT,
}


@dataclass(frozen=True)
class ResponseSpec:
    """One successful response of a route."""

    status: int
    description: str
    body: Any = None  # a type that msgspec can describe, or None for no body
    other_types: tuple[str, ...] = ()  # content types besides JSON
    content_type: str = JSON


@dataclass(frozen=True)
class BodySpec(Generic[B]):
    """The body that a route takes: how it is decoded, and the types it may have."""

    decode: Callable[[bytes], B]
    types: tuple[Any, ...]
    example: object
    optional: bool = False
    other_types: tuple[str, ...] = ()  # content types besides JSON


def json_body(body_type: type[B], example: object, *, optional: bool = False) -> BodySpec[B]:
    """A JSON body of one type."""
    return BodySpec(lambda raw: decode_body(raw, body_type), (body_type,), example, optional)


def decode_body(raw: bytes, body_type: type[B]) -> B:
    """`raw` as a `body_type`, or `Invalid`, also for a repeated key."""
    body = json.decode(raw, body_type)
    json.refuse_duplicate_keys(raw)
    return body


@dataclass(frozen=True)
class Route(Generic[Q, B]):
    """One entry of a table of routes. The first line of the handler's docstring is its summary."""

    method: str
    path: str
    operation: Operation
    handler: Callable[[Call[Q, B]], Coroutine[Any, Any, Reply]]
    query: type[Q]
    responses: tuple[ResponseSpec, ...]
    body: BodySpec[B] | None = None
    problems: tuple[int, ...] = ()
    mutates: bool = False  # it may change something, so a lost answer leaves the outcome unknown
    takes_key: bool = False  # takes an Idempotency-Key
    takes_if_match: bool = False
    cacheable: bool = False  # the reply depends on a manifest and the URL alone
    has_etag: bool = True
    reads_tables: bool = False  # tables may have unresolved names although the manifest lists them
    body_bytes: int | None = None  # where the usual limit does not fit
    accepts_gzip: bool = False
    is_idempotent: bool = False  # identifies what it changes, so a retry needs no Idempotency-Key
    long_polls: bool = False  # may wait for something to happen; sees its client disconnect
    runs_sql: bool = False  # a read by SQL, which is cancelled when its client disconnects

    @property
    def summary(self) -> str:
        """What the route does, in a line."""
        return str(self.handler.__doc__).partition("\n")[0]

    @property
    def target(self) -> TargetKind:
        """The type of the innermost object that the path names."""
        for name, target in _TARGETS.items():
            if f"{{{name}}}" in self.path:
                return target
        return TargetKind.WORKSPACE


AnyRoute = Route[Any, Any]


def create_route(
    path: str,
    operation: Operation,
    handler: Any,
    body: BodySpec[Any],
    created: Any,
    *,
    problems: tuple[int, ...],
    takes_if_match: bool = False,
) -> AnyRoute:
    """A route that creates something."""
    return Route(
        "POST",
        path,
        operation,
        handler,
        QueryParams,
        (ResponseSpec(201, "It was made.", created),),
        body,
        problems=(*problems, 422),
        mutates=True,
        takes_key=True,
        takes_if_match=takes_if_match,
    )


def update_route(
    path: str, operation: Operation, handler: Any, body: BodySpec[Any], updated: Any
) -> AnyRoute:
    """A route that changes something."""
    return Route(
        "PATCH",
        path,
        operation,
        handler,
        QueryParams,
        (ResponseSpec(200, "As it is now.", updated),),
        body,
        problems=(404, 409, 412, 422),
        mutates=True,
        takes_key=True,
        takes_if_match=True,
    )


def drop_route(path: str, operation: Operation, handler: Any, query: type[QueryParams]) -> AnyRoute:
    """A route that drops something."""
    return Route(
        "DELETE",
        path,
        operation,
        handler,
        query,
        (ResponseSpec(204, "It was dropped."),),
        problems=(404, 409, 412, 422),
        mutates=True,
        takes_key=True,
        takes_if_match=True,
    )


def get_route(
    path: str,
    operation: Operation,
    handler: Any,
    query: type[QueryParams],
    response: Any,
    *,
    cacheable: bool = True,
    reads_tables: bool = False,
) -> AnyRoute:
    """A route that reads an object or a list."""
    return Route(
        "GET",
        path,
        operation,
        handler,
        query,
        (
            ResponseSpec(200, "As it is, or was.", response),
            ResponseSpec(304, "You have it already."),
        ),
        problems=(404,),
        cacheable=cacheable,
        reads_tables=reads_tables,
    )


def read_route(
    path: str,
    operation: Operation,
    handler: Any,
    query: type[QueryParams],
    response: ResponseSpec,
    *,
    body: BodySpec[Any] | None = None,
    runs_sql: bool = False,
    long_polls: bool = False,
) -> AnyRoute:
    """A route that reads something without an ETag; POST if its parameters are too long for a URL."""
    return Route(
        "GET" if body is None else "POST",
        path,
        operation,
        handler,
        query,
        (response,),
        body,
        problems=(404,),
        has_etag=False,
        runs_sql=runs_sql,
        long_polls=long_polls,
    )


def public_route(path: str, operation: Operation, handler: Any, response: ResponseSpec) -> AnyRoute:
    """A route that needs no identity."""
    return Route("GET", path, operation, handler, QueryParams, (response,))
