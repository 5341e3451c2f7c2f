"""`/v1/config` lists exactly what is served."""

import re
from dataclasses import replace

import httpx2
import pytest

from arco.api.app import make_app
from arco.api.iceberg.routes import iso_duration
from arco.api.metrics import Metrics
from tests.api.iceberg.warehouse import Warehouse, refusal
from tests.api.server import Served, listening, looped


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (24 * 3_600_000, "PT24H"),
        (3_600_000, "PT1H"),
        (5_400_000, "PT1H30M"),
        (61_999, "PT1M1S"),
        (999, "PT0S"),
    ],
)
def test_a_duration_is_written_as_iso_has_it(ms: int, text: str) -> None:
    assert iso_duration(ms) == text


def test_the_prefix_is_the_id_of_the_catalog_and_its_name_leads_there_too(
    http: httpx2.Client, warehouse: Warehouse
) -> None:
    config = http.get("/iceberg/v1/config", params={"warehouse": warehouse.name}).json()
    catalog = http.get(f"/api/v1/catalogs/{warehouse.name}").json()
    assert config["overrides"] == {"prefix": catalog["id"], "namespace-separator": "%1F"}
    assert config["defaults"] == {"arco.location-root": ""}  # none is configured
    assert config["idempotency-key-lifetime"] == "PT24H"
    by_name = http.get(f"/iceberg/v1/{warehouse.name}/namespaces").json()
    assert by_name == http.get(f"/iceberg/v1/{catalog['id']}/namespaces").json()
    assert by_name["namespaces"] == [["db"]]


def test_without_a_warehouse_it_is_the_default_catalog(http: httpx2.Client) -> None:
    default = http.get("/api/v1/catalogs/default").json()["id"]
    for url in ("/iceberg/v1/config", "/iceberg/v1/config?warehouse="):
        assert http.get(url).json()["overrides"]["prefix"] == default


def test_a_warehouse_that_is_not_there_is_404(http: httpx2.Client) -> None:
    answer = http.get("/iceberg/v1/config", params={"warehouse": "nowhere"})
    assert refusal(answer) == (404, "NoSuchWarehouseException")


def test_a_prefix_that_is_not_there_is_404(http: httpx2.Client) -> None:
    for prefix in ("nowhere", "0197a2c4-58f0-7cc1-8a53-1f0a3c6f2b11"):
        assert http.get(f"/iceberg/v1/{prefix}/namespaces").status_code == 404


def test_every_listed_endpoint_is_served(warehouse: Warehouse) -> None:
    config = warehouse.http.get("/iceberg/v1/config").json()
    assert len(config["endpoints"]) == len(set(config["endpoints"]))
    for endpoint in config["endpoints"]:
        method, _, path = endpoint.partition(" ")
        assert re.fullmatch(r"/v1/(config|\{prefix\}/.+)", path)
        url = "/iceberg" + path.replace("{prefix}", warehouse.prefix)
        url = re.sub(r"{[a-z]+}", "nothing", url)
        answer = warehouse.http.request(method, url)
        assert answer.status_code not in {405, 501}, endpoint
        if answer.status_code == 404 and method != "HEAD":
            assert answer.json()["error"]["message"] != "there is no such route", endpoint


def test_credentials_are_not_advertised_while_none_are_vended(warehouse: Warehouse) -> None:
    endpoints = warehouse.http.get("/iceberg/v1/config").json()["endpoints"]
    assert [each for each in endpoints if each.endswith("/credentials")] == []


def test_every_served_route_is_listed(api: Served) -> None:
    """All that could be asked for, by each method, is refused unless it is in the list."""
    with api.client() as http:
        document = set(http.get("/iceberg/v1/config").json()["endpoints"])
        paths = {endpoint.partition(" ")[2] for endpoint in document}
        for path in paths:
            url = "/iceberg" + re.sub(r"{[a-z]+}", "nothing", path)
            for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
                answer = http.request(method, url)
                is_served = answer.status_code != 405
                assert is_served == (f"{method} {path}" in document), f"{method} {path}"


@pytest.mark.parametrize(
    "path",
    [
        *("/iceberg", "/iceberg/", "/iceberg/v1", "/iceberg/v2/config", "/iceberg/v1/config/"),
        *("/iceberg/v1/oauth/tokens", "/iceberg/v1/x/namespaces/a/tables/b/plan"),
        *("/iceberg/v1/x/namespaces/a/tables/b/sign", "/iceberg/v1//namespaces"),
        *("/iceberg/v1/x/namespaces/a/tables/b/tasks", "/iceberg/v1/%63onfig"),
        *("/iceberg/v1/x/namespaces/a/tables/", "/iceberg/v1/x/namespaces/a/views/"),
        *("/iceberg/api/v1/catalogs", "/iceberg/health/live"),
    ],
)
def test_what_is_not_served_is_no_route(http: httpx2.Client, path: str) -> None:
    answer = (
        http.post(path) if path.endswith(("tokens", "plan", "sign", "tasks")) else http.get(path)
    )
    assert refusal(answer) == (404, "NotFoundException")


def test_what_only_begins_alike_is_for_the_native_api(http: httpx2.Client) -> None:
    for path in ("/icebergs", "/Iceberg/v1/config", "/%69ceberg/v1/config"):
        assert http.get(path).json()["code"] == "no_such_route"


def test_without_a_service_behind_it_nothing_is_served(api: Served) -> None:
    bare = make_app(replace(api.services, iceberg=None, metrics=Metrics()))
    with looped() as loop, listening(bare, loop, api.services.log) as url:
        answer = httpx2.get(url + "/iceberg/v1/config", trust_env=False)
    assert (answer.status_code, answer.json()["code"]) == (404, "no_such_route")


def test_how_long_a_key_lives_is_sent_as_it_is_set(api: Served) -> None:
    kept = make_app(replace(api.services, key_life_ms=5_400_000, metrics=Metrics()))
    with looped() as loop, listening(kept, loop, api.services.log) as url:
        answer = httpx2.get(url + "/iceberg/v1/config", trust_env=False)
    assert answer.json()["idempotency-key-lifetime"] == "PT1H30M"
