"""Who may call: tokens of this installation and workspace, and no pages of other sites."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from arco.access.authorization import PUBLIC_OPERATIONS
from arco.access.identity import BearerIdentity
from arco.access.principal import Principal
from arco.access.token import LocalTokens
from arco.api.app import make_routes
from arco.api.http.snapshots import SnapshotReads
from arco.core.runtime import Runtime, system_runtime
from arco.core.scope import Scope
from tests.api.events import ledger, post, started
from tests.api.server import Options, Served, served

KEY = bytes(range(32))


def _identity(scope: Scope, runtime: Runtime) -> BearerIdentity:
    return BearerIdentity(LocalTokens(KEY, runtime), scope)


def token(name: str = "user:ana", scope: Scope | None = None, key: bytes = KEY) -> dict[str, str]:
    principal = Principal(name, scope or Scope())
    minted = LocalTokens(key, system_runtime()).mint(principal, life_s=600)
    return {"Authorization": f"Bearer {minted}"}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    root: Path = tmp_path_factory.mktemp("guarded") / "store"
    with served(root, Options(identity=_identity, hosts=None)) as running:
        yield running


def test_nothing_but_what_is_public_answers_without_a_token(guarded: Served) -> None:
    services = guarded.services
    with guarded.client() as http:
        for route in make_routes(services, SnapshotReads(services.reader)):
            answer = http.request(route.method, route.path.replace("{", "").replace("}", ""))
            if route.operation in PUBLIC_OPERATIONS:
                assert answer.status_code == 200, route.path
            else:
                assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
                assert answer.headers["www-authenticate"].startswith("Bearer")


def test_a_caller_with_a_token_acts_under_its_name(guarded: Served) -> None:
    with guarded.client(headers=token("client:loader")) as http:
        made = http.post("/api/v1/catalogs", json={"name": "theirs"}).json()
    assert (made["created_by"], made["owner"]) == ("client:loader", "client:loader")


def test_an_event_records_the_caller_that_sent_it_and_not_one_that_it_names(
    guarded: Served,
) -> None:
    for name, key in (("client:loader", None), ("user:ana", "k-1")):
        with guarded.client(headers=token(name)) as http:
            [event_id] = post(http, started(), key=key).json()["event_ids"]
            claimed = post(http, started(caller="user:eve"))
        [caller] = {each.caller for each in ledger(guarded) if each.event_id == event_id}
        assert caller == name
        assert (claimed.status_code, "caller" in claimed.text) == (422, True)


def test_a_token_of_another_workspace_is_403(guarded: Served) -> None:
    with guarded.client(headers=token(scope=Scope("other", "default"))) as http:
        answer = http.get("/api/v1/catalogs")
    assert (answer.status_code, answer.json()["code"]) == (403, "denied")


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer x", "Basic dXNlcjpwYXNz", "Bearer a.b.c", "Bearer " + "a" * 20_000],
)
def test_what_is_no_token_of_ours_is_401_in_one_sentence(guarded: Served, header: str) -> None:
    with guarded.client() as http:
        answer = http.get("/api/v1/catalogs", headers={"Authorization": header})
        bare = http.get("/api/v1/catalogs")
    assert (answer.status_code, answer.content) == (401, bare.content)
    with guarded.client(headers=token(key=bytes(32))) as http:
        assert http.get("/api/v1/catalogs").content == bare.content


def test_two_authorizations_in_one_request_are_refused(guarded: Served) -> None:
    headers = [*token().items(), *token("user:other").items()]
    with guarded.client() as http:
        assert http.get("/api/v1/catalogs", headers=headers).status_code == 400


def test_the_same_key_of_two_callers_is_two_keys(guarded: Served) -> None:
    key = {"Idempotency-Key": "shared"}
    with guarded.client() as http:
        answers = [
            http.post("/api/v1/catalogs", json={"name": name}, headers={**token(who), **key})
            for who, name in (("user:ana", "anas"), ("user:bob", "bobs"))
        ]
    assert [answer.status_code for answer in answers] == [201, 201]


def test_what_is_denied_is_answered_alike_whether_it_exists_or_not(guarded: Served) -> None:
    with guarded.client(headers=token(scope=Scope("other", "default"))) as http:
        existing, missing = (
            http.get(f"/api/v1/catalogs/{name}") for name in ("default", "nothing")
        )
    assert existing.content == missing.content
    assert _problem(existing) == _problem(missing)


def _problem(answer: httpx2.Response) -> dict[str, str]:
    return {
        name: text for name, text in answer.headers.items() if name not in {"x-request-id", "date"}
    }


FOREIGN = [
    {"Sec-Fetch-Site": "cross-site"},
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:1"},
    {"Origin": "http://localhost"},
    {"Origin": ""},
]


@pytest.mark.parametrize("headers", FOREIGN)
def test_a_page_of_another_site_changes_nothing(
    http: httpx2.Client, table: str, headers: dict[str, str]
) -> None:
    born = http.get(table).json()
    undrop = f"/api/v1/objects/{born['id']}/undrop"
    for answer in (
        http.patch(table, json={"comment": "evil"}, headers=headers),
        http.delete(table, headers=headers),
        http.post(undrop, headers=headers),
        http.post("/api/v1/query", json={"sql": "SELECT 1"}, headers=headers),
    ):
        assert (answer.status_code, answer.json()["code"]) == (403, "cross_site")
    assert http.get(table, headers=headers).json() == born


def test_a_page_of_this_very_server_may(api: Served, http: httpx2.Client, table: str) -> None:
    own = {"Origin": api.url, "Sec-Fetch-Site": "same-origin"}
    assert http.patch(table, json={"comment": "mine"}, headers=own).status_code == 200
    assert http.patch(table, json={}, headers={"Sec-Fetch-Site": "none"}).status_code == 200


def test_foreign_origins_are_allowed_where_every_caller_is_identified(tmp_path: Path) -> None:
    with served(tmp_path / "store", Options(hosts=None)) as api, api.client() as http:
        for headers in FOREIGN:
            made = http.patch("/api/v1/catalogs/default", json={}, headers=headers)
            assert made.status_code == 200
