"""From a path to a route, segment by segment; segments stay escaped, so no escaped slash splits one."""

from dataclasses import dataclass, field
from urllib.parse import unquote_to_bytes

from arco.api.http.problem import HttpError
from arco.api.http.route import AnyRoute
from arco.core.errors import Invalid

_MAX_CACHED = 4_096  # paths whose route is cached
_MAX_CACHED_PATH_BYTES = 512

_Match = tuple[AnyRoute, dict[str, str]]


@dataclass
class _Node:
    """One segment in the tree of paths."""

    fixed: dict[str, "_Node"] = field(default_factory=dict)
    named: "_Node | None" = None
    routes: dict[str, tuple[AnyRoute, tuple[str, ...]]] = field(default_factory=dict)

    @property
    def allowed(self) -> str:
        return ", ".join(sorted(self.routes))


class Router:
    """Finds the route of a request.

    `heads`: every GET route answers HEAD too. `plus_is_blank` is for clients that escape names like form
    fields. A path with an empty placeholder matches no route, unless the placeholder is in `may_be_blank`.
    """

    def __init__(
        self,
        routes: tuple[AnyRoute, ...],
        *,
        heads: bool = True,
        plus_is_blank: bool = False,
        may_be_blank: frozenset[str] = frozenset(),
    ) -> None:
        self.routes = routes
        self._heads = heads
        self._plus_is_blank = plus_is_blank
        self._may_be_blank = may_be_blank
        self._root = _Node()
        self._cache: dict[tuple[str, bytes], _Match] = {}
        for route in routes:
            self._add(route)

    def find(self, method: str, raw_path: bytes) -> _Match:
        """The route and the values of its placeholders; `HttpError` 404 or 405, or `Invalid`."""
        match = self._cache.get((method, raw_path))
        if match is None:
            match = self._walk(method, raw_path)
            if len(raw_path) <= _MAX_CACHED_PATH_BYTES:
                if len(self._cache) >= _MAX_CACHED:
                    self._cache.clear()
                self._cache[method, raw_path] = match
        return match

    def _walk(self, method: str, raw_path: bytes) -> _Match:
        node, values = self._root, []
        for segment in raw_path.split(b"/")[1:]:
            # Fixed segments are plain ASCII; an escaped one is always a value.
            child = node.fixed.get(segment.decode("latin-1"))
            if child is None:
                child = node.named
                if child is None:
                    raise _no_route()
                values.append(segment)
            node = child
        if not node.routes:
            raise _no_route()
        if method not in node.routes:
            raise HttpError(
                405,
                "method_not_allowed",
                f"this route takes {node.allowed}",
                headers={"Allow": node.allowed},
            )
        route, names = node.routes[method]
        if any(
            not (value or name in self._may_be_blank)
            for name, value in zip(names, values, strict=True)
        ):
            raise _no_route()
        if self._plus_is_blank:
            values = [value.replace(b"+", b"%20") for value in values]
        return route, {name: _unescape(value) for name, value in zip(names, values, strict=True)}

    def _add(self, route: AnyRoute) -> None:
        node, names = self._root, []
        for segment in route.path.split("/")[1:]:
            if segment.startswith("{"):
                names.append(segment[1:-1])
                node.named = node.named or _Node()
                node = node.named
            else:
                node = node.fixed.setdefault(segment, _Node())
        if route.method in node.routes:
            raise Invalid(f"two routes for {route.method} {route.path}")
        node.routes[route.method] = (route, tuple(names))
        if self._heads and route.method == "GET":
            node.routes["HEAD"] = (route, tuple(names))


def _unescape(segment: bytes) -> str:
    if b"%" not in segment:
        return segment.decode("ascii", "replace")
    try:
        return unquote_to_bytes(segment).decode()
    except UnicodeDecodeError as problem:
        raise Invalid("a name in the path is not valid UTF-8") from problem


def _no_route() -> HttpError:
    return HttpError(
        404,
        "no_such_route",
        "there is no such route",
        next_step="See /api/v1/docs for all routes; escape slashes in names as %2F.",
    )
