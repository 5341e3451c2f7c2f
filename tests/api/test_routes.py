"""The table of routes: complete, authorized, strict about paths."""

import re

import httpx2
import pytest

from arco.access.authorization import (
    ACCESS_MATRIX,
    ICEBERG_OPERATIONS,
    PUBLIC_OPERATIONS,
    Operation,
    TargetKind,
)
from arco.access.principal import PrincipalRole
from arco.api.app import make_routes
from arco.api.http.route import AnyRoute
from arco.api.http.snapshots import SnapshotReads
from arco.api.internal import InternalHandlers, internal_routes
from arco.compactor.catalog_compactor import CatalogCompactor
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.storage.backend import Backend
from arco.storage.roles import Role as StoreRole
from arco.storage.store import Store
from tests.api.server import Served


@pytest.fixture
def routes(api: Served) -> tuple[AnyRoute, ...]:
    return make_routes(api.services, SnapshotReads(api.services.reader))


def test_every_operation_for_callers_has_a_route_and_every_route_an_entry(
    routes: tuple[AnyRoute, ...], memory: Backend, runtime: Runtime
) -> None:
    store = Store(memory, runtime, scope=Scope(), role=StoreRole.COMPACTOR)
    internal = internal_routes(InternalHandlers(CatalogCompactor(store)))
    assert {route.operation for route in (*routes, *internal)} == set(
        Operation
    ) - ICEBERG_OPERATIONS
    for route in routes:
        rule = ACCESS_MATRIX[route.operation]
        assert rule.role in {PrincipalRole.CALLER, None}, route.path
        assert rule.reads is not route.mutates, route.path
    for route in internal:
        assert ACCESS_MATRIX[route.operation].role is PrincipalRole.SERVICE


def test_the_target_of_every_route_is_one_that_its_operation_is_about(
    routes: tuple[AnyRoute, ...],
) -> None:
    for route in routes:
        if route.operation not in PUBLIC_OPERATIONS:
            assert route.target in ACCESS_MATRIX[route.operation].targets, route.path
    assert {route.target for route in routes} == set(TargetKind)


def test_every_route_that_changes_something_takes_a_key_or_names_what_it_changes(
    routes: tuple[AnyRoute, ...],
) -> None:
    for route in routes:
        assert (route.takes_key or route.is_idempotent) is route.mutates, route.path
        assert not (route.takes_key and route.is_idempotent), route.path
        assert route.takes_if_match or route.method not in {"PATCH", "DELETE"}


def test_every_route_answers(http: httpx2.Client, routes: tuple[AnyRoute, ...]) -> None:
    for route in routes:
        url = re.sub(r"{\w+}", "0", route.path)
        answer = http.request(route.method, url)
        assert answer.json()["code"] != "no_such_route" if answer.status_code == 404 else True, url
        assert answer.status_code < 500, url
        assert answer.headers["x-request-id"]


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/",
            "/api",
            "/api/v1",
            "/api/v1/",
            "/api/v1/catalogs/",
            "//api/v1/catalogs",
            "/api/v2/catalogs",
        ),
        *("/api/v1/%63atalogs", "/api/v1/catalogs/default/schemas/", "/api/v1/../v1/catalogs"),
        *("/api/v1/catalogs/a/b", "/internal/merge", "/api/v1/docs/x", "/api/v1/docs.html"),
    ],
)
def test_a_path_that_is_no_route_is_404(api: Served, path: str) -> None:
    # Sent as it is: a client that tidies paths up would hide what the server does with it.
    transport = httpx2.HTTPTransport()
    request = httpx2.Request("GET", api.url, extensions={"target": path.encode()})
    with httpx2.Client(transport=transport) as client:
        answer = client.send(request)
    assert (answer.status_code, answer.json()["code"]) == (404, "no_such_route")
    assert answer.headers["content-type"] == "application/problem+json"


def test_an_escaped_slash_never_leads_to_another_route(http: httpx2.Client, schema: str) -> None:
    catalog, _, rest = schema.removeprefix("/api/v1/catalogs/").partition("/")
    joined = f"/api/v1/catalogs/{catalog}%2F{rest.replace('/', '%2F')}"
    assert http.get(schema).status_code == 200
    answer = http.get(joined)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_a_method_that_a_route_does_not_take_is_405(http: httpx2.Client) -> None:
    answer = http.put("/api/v1/catalogs")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD, POST")
    assert answer.json()["code"] == "method_not_allowed"
    for method in ("TRACE", "OPTIONS", "CONNECT", "PATCH"):
        assert http.request(method, "/health/live").status_code in {400, 405}


def test_a_name_that_is_not_utf8_is_400(http: httpx2.Client) -> None:
    for name in ("%ff", "%c0%af", "%ed%a0%80"):
        assert http.get(f"/api/v1/catalogs/{name}").status_code == 400
