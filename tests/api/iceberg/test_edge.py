"""What is refused before any handler: in Iceberg's shape below /iceberg, as ever elsewhere."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from arco.access.identity import BearerIdentity
from arco.access.principal import Principal
from arco.access.token import LocalTokens
from arco.api.http.limits import HttpLimits
from arco.api.iceberg.context import IcebergHandlerContext
from arco.api.iceberg.routes import iceberg_routes
from arco.core.runtime import Runtime, system_runtime
from arco.core.scope import Scope
from arco.storage.backend import Backend
from tests.api.iceberg.warehouse import refusal
from tests.api.server import Options, Served, served
from tests.api.slow_store import Slow

KEY = bytes(range(32))
CONFIG = "/iceberg/v1/config"


def _identity(scope: Scope, runtime: Runtime) -> BearerIdentity:
    return BearerIdentity(LocalTokens(KEY, runtime), scope)


def _token(scope: Scope) -> dict[str, str]:
    minted = LocalTokens(KEY, system_runtime()).mint(Principal("user:ana", scope), life_s=600)
    return {"Authorization": f"Bearer {minted}"}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    root: Path = tmp_path_factory.mktemp("guarded") / "store"
    with served(root, Options(identity=_identity, hosts=None)) as running:
        yield running


def test_nothing_answers_without_a_token(guarded: Served) -> None:
    assert guarded.services.iceberg is not None
    routes = iceberg_routes(IcebergHandlerContext(guarded.services, guarded.services.iceberg))
    with guarded.client() as http:
        for route in routes:
            url = route.path.replace("{", "").replace("}", "")
            answer = http.request(route.method, url)
            assert answer.status_code == 401, url
            assert answer.headers["www-authenticate"].startswith("Bearer")
            if route.method != "HEAD":
                assert refusal(answer) == (401, "NotAuthorizedException")


def test_a_token_of_another_workspace_is_403(guarded: Served) -> None:
    with guarded.client(headers=_token(Scope("other", "default"))) as http:
        assert refusal(http.get(CONFIG)) == (403, "ForbiddenException")
    with guarded.client(headers=_token(Scope())) as http:
        assert http.get(CONFIG).status_code == 200


def test_a_server_for_its_own_machine_is_not_reached_by_another_name(http: httpx2.Client) -> None:
    answer = http.get(CONFIG, headers={"Host": "evil.example"})
    assert refusal(answer) == (403, "ForbiddenException")
    native = http.get("/api/v1/catalogs", headers={"Host": "evil.example"})
    assert native.json()["code"] == "wrong_host"


def test_a_page_of_another_site_changes_nothing(http: httpx2.Client) -> None:
    answer = http.post(
        "/iceberg/v1/default/namespaces",
        json={"namespace": ["foreign"]},
        headers={"Origin": "https://evil.example"},
    )
    assert refusal(answer) == (403, "ForbiddenException")
    assert http.head("/iceberg/v1/default/namespaces/foreign").status_code == 404


def test_a_form_of_another_site_cannot_unregister(http: httpx2.Client) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    url = "/iceberg/v1/default/namespaces/a/tables/b/unregister"
    answer = http.post(url, content=b"a=b", headers=headers)
    assert refusal(answer) == (415, "UnsupportedMediaTypeException")


def test_a_url_that_is_too_long_is_414(http: httpx2.Client) -> None:
    answer = http.get("/iceberg/v1/" + "x" * 40_000)
    assert refusal(answer) == (414, "UriTooLongException")


def test_a_body_that_is_too_large_is_413(http: httpx2.Client, api: Served) -> None:
    content = b"x" * (65 * 1024 * 1024)
    headers = {"Content-Type": "application/json"}
    with api.client() as client:
        answer = client.post("/iceberg/v1/default/namespaces", content=content, headers=headers)
    assert refusal(answer) == (413, "ContentTooLargeException")
    assert http.get(CONFIG).status_code == 200


def test_a_method_that_a_route_does_not_take_is_405(http: httpx2.Client) -> None:
    answer = http.put("/iceberg/v1/default/namespaces/a")
    assert refusal(answer) == (405, "MethodNotAllowedException")
    assert answer.headers["allow"] == "DELETE, GET, HEAD"


def test_every_answer_has_the_id_of_its_request(http: httpx2.Client) -> None:
    for url in (CONFIG, "/iceberg/nothing", "/iceberg/v1/nowhere/namespaces"):
        assert http.get(url, headers={"X-Request-Id": "mine"}).headers["x-request-id"] == "mine"


def test_log_and_metrics_name_the_operation(api: Served) -> None:
    with api.client() as http:
        url = "/iceberg/v1/default/namespaces/nowhere"
        assert http.get(url, headers={"X-Request-Id": "logged"}).status_code == 404
        text = http.get("/metrics").text
    lines = [json.loads(line) for line in api.log.splitlines()]
    line = next(line for line in lines if line.get("request_id") == "logged")
    assert (line["operation"], line["code"]) == (
        "iceberg_load_namespace",
        "NoSuchNamespaceException",
    )
    assert 'arco_http_requests_total{operation="iceberg_load_namespace",status="404"}' in text


@pytest.fixture
def slowed(tmp_path: Path) -> Iterator[tuple[Served, Slow]]:
    stores: list[Slow] = []

    def wrap(inner: Backend) -> Backend:
        stores.append(Slow(inner))
        return stores[0]

    limits = HttpLimits(request_ms=1_500, ready_ms=200, in_flight=4)
    with served(tmp_path / "store", Options(limits=limits, wrap=wrap)) as running:
        yield running, stores[0]
        stores[0].open.set()


def _together(count: int, call: Callable[[], httpx2.Response]) -> list[httpx2.Response]:
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda _: call(), range(count)))


def test_too_many_requests_at_once_are_503_with_a_time_to_come_back(
    slowed: tuple[Served, Slow],
) -> None:
    api, store = slowed
    store.open.clear()

    def read() -> httpx2.Response:
        with api.client() as client:
            return client.get("/iceberg/v1/default/namespaces")

    for answer in _together(12, read):
        assert refusal(answer) == (503, "SlowDownException")
        assert answer.headers["retry-after"] in {"1", "2"}
    store.open.set()


def test_a_commit_that_takes_too_long_is_of_unknown_outcome(slowed: tuple[Served, Slow]) -> None:
    api, store = slowed
    schema = {
        "type": "struct",
        "fields": [{"id": 1, "name": "a", "required": False, "type": "int"}],
    }
    with api.client() as client:
        base = "/iceberg/v1/default/namespaces"
        assert client.post(base, json={"namespace": ["db"]}).status_code == 200
        made = client.post(f"{base}/db/tables", json={"name": "t", "schema": schema})
        assert made.status_code == 200, made.text
        store.open.clear()
        body = {"updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
        answer = client.post(f"{base}/db/tables/t", json={"requirements": [], **body})
        store.open.set()
    assert refusal(answer) == (500, "CommitStateUnknownException")
