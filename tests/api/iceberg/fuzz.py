"""Made-up requests against a running Iceberg REST catalog (figure 17).

None may be answered with a 5xx, with an error of another shape than the protocol's, or with a body where
there must be none; and the log may have no unexpected error.
"""

import json
from collections import Counter
from typing import Any

import httpx2
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.api.iceberg.generators import Request, requests
from tests.api.iceberg.warehouse import SCHEMA, VERSION, refusal

BODILESS = frozenset({204, 304})
PER_ROUND = 200  # then what requests have dropped or renamed is made again


def fuzz_iceberg(http: httpx2.Client, *, count: int, start: int = 0) -> Counter[int]:
    """Send about `count` requests; the first one that is answered wrongly is raised."""
    statuses: Counter[int] = Counter()
    http.post("/api/v1/catalogs", json={"name": "made_up"})
    for number, sent in enumerate(range(0, count, PER_ROUND)):
        table_location = _prepare(http)
        _attack(http, table_location, statuses, min(PER_ROUND, count - sent), start + number)
    return statuses


def _prepare(http: httpx2.Client) -> str:
    """Something to be right about, and where a table of it lies."""
    base = "/iceberg/v1/made_up/namespaces"
    for levels in (["db"], ["db", "inner"]):
        http.post(base, json={"namespace": levels})
    for name in ("t", "u"):
        http.post(f"{base}/db/tables", json={"name": name, "schema": SCHEMA})
    view = {"name": "v", "schema": SCHEMA, "view-version": VERSION, "properties": {}}
    http.post(f"{base}/db/views", json=view)
    actual = http.get(f"{base}/db/tables/t").json().get("metadata", {})
    return str(actual.get("location", "file:///nowhere"))


def _attack(
    http: httpx2.Client, table_location: str, statuses: Counter[int], count: int, start: int
) -> None:
    @seed(start)
    @settings(
        max_examples=count,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        database=None,
        deadline=None,
    )
    @given(request=requests(), on_known=st.integers(0, 3))
    def attack(request: Request, on_known: int) -> None:
        answer = _send(http, request, table_location, is_known=on_known > 0)
        statuses[answer.status_code] += 1
        _check(request, answer)

    attack()


def _send(
    http: httpx2.Client, request: Request, table_location: str, *, is_known: bool
) -> httpx2.Response:
    path = request.path
    if is_known and request.parts[0] == "namespaces" and len(request.parts) > 1:
        path = "/".join(["namespaces", "db", *path.split("/")[2:]])
    more: dict[str, Any] = {}
    if request.body is not None:
        text = json.dumps(request.body).replace('"HERE', f'"{table_location}')
        more = {"content": text.encode(), "headers": {"Content-Type": "application/json"}}
    headers = {**more.pop("headers", {}), **request.headers}
    url = f"/iceberg/v1/made_up/{path}"
    return http.request(request.method, url, params=request.query, headers=headers, **more)


def _check(request: Request, answer: httpx2.Response) -> None:
    if answer.status_code == 503 and "Idempotency-Key" in request.headers:
        # Made-up keys come back at once, while an attempt that was not answered for good still counts.
        assert refusal(answer) == (503, "SlowDownException")
        assert int(answer.headers["retry-after"]) <= 2
        return
    assert answer.status_code < 500, answer.text
    if request.method == "HEAD" or answer.status_code in BODILESS:
        assert not answer.content
    elif answer.status_code >= 400:
        refusal(answer)
    else:
        assert answer.headers["content-type"] == "application/json"
        assert isinstance(answer.json(), dict)
