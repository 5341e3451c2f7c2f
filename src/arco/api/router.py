"""From a path to a route: by its segments, still escaped, so that no escaped slash ever makes a new one."""

from dataclasses import dataclass, field
from urllib.parse import quote, unquote_to_bytes

from starlette.types import Scope

from arco.api.problem import Refusal
from arco.api.route import AnyRoute
from arco.core.errors import Invalid

_MOST_SEEN = 4_096  # paths whose way is remembered
_LONGEST_SEEN = 512


@dataclass
class _Node:
    """One place in the tree of paths."""

    fixed: dict[str, "_Node"] = field(default_factory=dict)
    named: "_Node | None" = None
    routes: dict[str, tuple[AnyRoute, tuple[str, ...]]] = field(default_factory=dict)

    @property
    def allowed(self) -> str:
        return ", ".join(sorted(self.routes))


class Router:
    """All routes of a table, found by walking one segment after the other.

    `heads` says that whatever can be got can be asked for without its body, too. `plus_is_blank` is for
    clients that escape names like the fields of a form. A path in which a placeholder is left blank is no
    route, but for those in `may_be_blank`.
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
        self._seen: dict[tuple[str, bytes], tuple[AnyRoute, dict[str, str]]] = {}
        for route in routes:
            self._add(route)

    def find(self, method: str, raw_path: bytes) -> tuple[AnyRoute, dict[str, str]]:
        """The route and what stands in its placeholders; a refusal of 404 or 405, or `Invalid`."""
        found = self._seen.get((method, raw_path))
        if found is None:
            found = self._walk(method, raw_path)
            self._remember(method, raw_path, found)
        return found

    def _remember(
        self, method: str, raw_path: bytes, found: tuple[AnyRoute, dict[str, str]]
    ) -> None:
        if len(raw_path) > _LONGEST_SEEN:
            return
        if len(self._seen) >= _MOST_SEEN:
            self._seen.clear()
        self._seen[method, raw_path] = found

    def _walk(self, method: str, raw_path: bytes) -> tuple[AnyRoute, dict[str, str]]:
        segments = raw_path.split(b"/")[1:]
        node, values = self._root, []
        for segment in segments:
            # Fixed names are plain ASCII; an escaped one is a value, never a name of ours.
            below = node.fixed.get(segment.decode("latin-1"))
            if below is None:
                below = node.named
                if below is None:
                    raise _no_route()
                values.append(segment)
            node = below
        if not node.routes:
            raise _no_route()
        found = node.routes.get(method)
        if found is None:
            raise Refusal(
                405,
                "method_not_allowed",
                f"this route takes {node.allowed}",
                headers={"Allow": node.allowed},
            )
        route, names = found
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


def path_of(scope: Scope) -> bytes:
    """The path as it came, or written anew where a server does not tell."""
    raw = scope.get("raw_path")
    return raw if isinstance(raw, bytes) else quote(scope["path"]).encode()


def _unescape(segment: bytes) -> str:
    if b"%" not in segment:
        return segment.decode("ascii", "replace")
    try:
        return unquote_to_bytes(segment).decode()
    except UnicodeDecodeError as problem:
        raise Invalid("a name in the path is not valid UTF-8") from problem


def _no_route() -> Refusal:
    return Refusal(
        404,
        "no_such_route",
        "there is no such route",
        next_step="See /api/v1/docs for all routes; escape slashes in names as %2F.",
    )
