"""The table of routes: each with its operation, authorized, and strict about the names in a path."""

from urllib.parse import quote, quote_plus

import pytest

from arco.access.authorization import ACCESS_MATRIX, ICEBERG_OPERATIONS
from arco.access.principal import PrincipalRole
from arco.api.http.problem import HttpError
from arco.api.http.route import AnyRoute
from arco.api.http.router import Router
from arco.api.iceberg.context import IcebergHandlerContext
from arco.api.iceberg.errors import COMMITS
from arco.api.iceberg.routes import BODY_BYTES, iceberg_routes
from arco.core.errors import Invalid
from tests.api.iceberg.warehouse import Warehouse, refusal
from tests.api.server import Served

NAMES = ["a.b", "50%", "a%2Fb", "a+b", "a b", "Größe", "数据", "rename", "a,b", "x&y=z", "q?", "#1"]


@pytest.fixture(scope="module")
def routes(api: Served) -> tuple[AnyRoute, ...]:
    assert api.services.iceberg is not None
    return iceberg_routes(IcebergHandlerContext(api.services, api.services.iceberg))


def test_every_operation_has_one_route_and_every_route_an_entry(
    routes: tuple[AnyRoute, ...],
) -> None:
    operations = [route.operation for route in routes]
    assert set(operations) == ICEBERG_OPERATIONS
    assert len(operations) == len(set(operations))
    for route in routes:
        rule = ACCESS_MATRIX[route.operation]
        assert rule.role is PrincipalRole.CALLER, route.path
        assert rule.reads is not route.mutates, route.path
        assert route.target in rule.targets, route.path


def test_every_route_that_changes_something_takes_a_key(routes: tuple[AnyRoute, ...]) -> None:
    for route in routes:
        assert route.takes_key is route.mutates
        assert route.mutates or route.operation not in COMMITS
        assert route.body_bytes == (BODY_BYTES if route.mutates else None)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("escape", [lambda name: quote(name, safe=""), quote_plus])
def test_a_name_in_a_path_is_what_the_client_has_escaped(
    routes: tuple[AnyRoute, ...], name: str, escape: object
) -> None:
    router = Router(routes, heads=False, plus_is_blank=True)
    escaped = escape(name)  # type: ignore[operator]
    path = f"/iceberg/v1/{escaped}/namespaces/{escaped}%1F{escaped}/tables/{escaped}"
    route, names = router.find("GET", path.encode())
    assert route.operation == "iceberg_load_table"
    assert names == {"prefix": name, "namespace": f"{name}\x1f{name}", "table": name}


def test_a_name_that_is_not_utf8_is_invalid(routes: tuple[AnyRoute, ...]) -> None:
    with pytest.raises(Invalid):
        Router(routes).find("GET", b"/iceberg/v1/x/namespaces/%ff")


def test_head_is_a_route_of_its_own_or_none(routes: tuple[AnyRoute, ...]) -> None:
    router = Router(routes, heads=False)
    assert router.find("HEAD", b"/iceberg/v1/x/namespaces/a")[0].method == "HEAD"
    with pytest.raises(HttpError) as refused:
        router.find("HEAD", b"/iceberg/v1/x/namespaces")
    assert (refused.value.status, refused.value.headers) == (405, {"Allow": "GET, POST"})


@pytest.mark.parametrize("name", ["a.b", "50%", "a+b", "a b", "Größe", "rename", "a,b", "x&y=z"])
def test_any_name_survives_the_way_there_and_back(warehouse: Warehouse, name: str) -> None:
    warehouse.make_namespace(name)
    warehouse.make_namespace(name, name)
    warehouse.make_table(name, name, name)
    http = warehouse.http
    inside = http.get(warehouse.url("namespaces"), params={"parent": name}).json()
    assert inside["namespaces"] == [[name, name]]
    listed = http.get(warehouse.url("namespaces", f"{name}\x1f{name}", "tables")).json()
    assert listed["identifiers"] == [{"namespace": [name, name], "name": name}]
    assert http.head(warehouse.table(name, name, name)).status_code == 204
    # As the Java client writes it: like the fields of a form.
    form = quote_plus(name)
    url = f"/iceberg/v1/{warehouse.prefix}/namespaces/{form}%1F{form}/tables/{form}"
    assert http.head(url).status_code == 204


def test_a_slash_in_a_name_leads_to_no_other_route(warehouse: Warehouse) -> None:
    warehouse.make_table("orders")
    http = warehouse.http
    url = f"/iceberg/v1/{warehouse.prefix}/namespaces/db%2Ftables%2Forders"
    assert http.head(url).status_code == 404
    assert refusal(http.get(url)) == (404, "NoSuchNamespaceException")


def test_a_namespace_of_too_many_levels_is_400(warehouse: Warehouse) -> None:
    answer = warehouse.http.get(warehouse.url("namespaces", "\x1f".join("a" * 40)))
    assert refusal(answer) == (400, "BadRequestException")
