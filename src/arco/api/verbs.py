"""The kinds of routes there are, so that the table of them says only what is particular to each."""

from typing import Any

from arco.access.authorization import Operation
from arco.api.query_params import Query
from arco.api.route import Answered, AnyRoute, Route, Sent


def says(handler: Any) -> str:
    """The summary of a route: the first line of what its handler says of itself."""
    return str(handler.__doc__).partition("\n")[0]


def made(
    path: str,
    operation: Operation,
    handler: Any,
    body: Sent[Any],
    made: Any,
    *,
    problems: tuple[int, ...],
    matched: bool = False,
) -> AnyRoute:
    """A route that makes something."""
    return Route(
        "POST",
        path,
        operation,
        says(handler),
        handler,
        Query,
        (Answered(201, "It was made.", made),),
        body,
        problems=(*problems, 422),
        mutates=True,
        keyed=True,
        matched=matched,
    )


def changed(
    path: str, operation: Operation, handler: Any, body: Sent[Any], changed: Any
) -> AnyRoute:
    """A route that changes something."""
    return Route(
        "PATCH",
        path,
        operation,
        says(handler),
        handler,
        Query,
        (Answered(200, "As it is now.", changed),),
        body,
        problems=(404, 409, 412, 422),
        mutates=True,
        keyed=True,
        matched=True,
    )


def dropped(path: str, operation: Operation, handler: Any, query: type[Query]) -> AnyRoute:
    """A route that drops something."""
    return Route(
        "DELETE",
        path,
        operation,
        says(handler),
        handler,
        query,
        (Answered(204, "It was dropped."),),
        problems=(404, 409, 412, 422),
        mutates=True,
        keyed=True,
        matched=True,
    )


def got(
    path: str,
    operation: Operation,
    handler: Any,
    query: type[Query],
    got: Any,
    *,
    pure: bool = True,
    tables: bool = False,
) -> AnyRoute:
    """A route that reads one thing."""
    return Route(
        "GET",
        path,
        operation,
        says(handler),
        handler,
        query,
        (Answered(200, "As it is, or was.", got), Answered(304, "You have it already.")),
        problems=(404,),
        pure=pure,
        tables=tables,
    )


def public(path: str, operation: Operation, handler: Any, answered: Answered) -> AnyRoute:
    """A route that needs no identity."""
    return Route("GET", path, operation, says(handler), handler, Query, (answered,))
