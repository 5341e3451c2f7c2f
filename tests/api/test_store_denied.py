"""When the store denies this server access: clients get a 503, and the log says why."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from arco.core.errors import ArcoError, Denied, Unauthenticated, Unavailable
from arco.storage.backend import Backend
from tests.api.server import Options, Served, served
from tests.api.slow_store import Slow


class Refusing(Slow):
    """A store that fails with a given error."""

    problem: ArcoError | None = None

    async def get(self, key: str) -> bytes:
        if self.problem is not None:
            raise self.problem
        return await super().get(key)

    async def create(self, key: str, body: bytes) -> None:
        if self.problem is not None:
            raise self.problem
        await super().create(key, body)


@pytest.fixture
def refusing(tmp_path: Path) -> Iterator[tuple[Served, Refusing]]:
    stores: list[Refusing] = []

    def wrap(inner: Backend) -> Backend:
        stores.append(Refusing(inner))
        return stores[0]

    with served(tmp_path / "store", Options(wrap=wrap)) as api:
        yield api, stores[0]
        stores[0].problem = None


def _asked(http: httpx2.Client) -> list[httpx2.Response]:
    key = {"Idempotency-Key": "a"}
    return [
        http.get("/api/v1/catalogs/default"),
        http.get("/api/v1/commits/0"),
        http.post("/api/v1/catalogs", json={"name": "a"}),
        http.post("/api/v1/catalogs", json={"name": "b"}, headers=key),
    ]


def _failures(api: Served) -> list[dict[str, object]]:
    lines = (json.loads(line) for line in api.log.splitlines())
    return [line for line in lines if line["event"] == "failed"]


@pytest.mark.parametrize("kind", [Denied, Unauthenticated])
def test_a_refusal_of_our_identity_is_503_and_logged_as_an_error(
    refusing: tuple[Served, Refusing], kind: type[Denied]
) -> None:
    api, store = refusing
    store.problem = kind("this role may not read locks")
    with api.client() as http:
        for answer in _asked(http):
            assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
            assert answer.headers["retry-after"]
            assert "role" not in answer.text
    failures = _failures(api)
    assert len(failures) == 4
    for line in failures:
        assert line["level"] == "error"
        assert str(line["detail"]).endswith("this role may not read locks")
        assert any("get" in place or "create" in place for place in line["places"])  # type: ignore[attr-defined]


def test_a_path_of_the_store_is_not_logged_with_its_refusal(
    refusing: tuple[Served, Refusing],
) -> None:
    api, store = refusing
    store.problem = Denied("no right to manifests/catalog/00000000000000000001.json")
    with api.client() as http:
        assert {answer.status_code for answer in _asked(http)} == {503}
    assert "manifests/catalog/0" not in api.log
    assert {line["detail"] for line in _failures(api)} == {
        "something that this server needs has refused its identity"
    }


def test_why_a_request_failed_is_in_the_log_and_not_in_the_answer(
    refusing: tuple[Served, Refusing],
) -> None:
    api, store = refusing
    store.problem = Unavailable("the line was cut by a digger")
    with api.client() as http:
        answer = http.get("/api/v1/commits/0")
    assert answer.status_code == 503
    assert "digger" not in answer.text
    [line] = _failures(api)
    assert "the line was cut by a digger" in str(line["detail"])
    assert line["level"] == "warning"
