"""Reads over HTTP: pages, ETags, earlier points in time, and limits on columns."""

from base64 import urlsafe_b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from arco.api.http.snapshots import PageCursor
from tests.api.server import served


def _fill(http: httpx2.Client, schema: str, count: int) -> list[str]:
    names = sorted(f"t{number:03}" for number in range(count))
    for name in names:
        assert (
            http.post(f"{schema}/tables", json={"name": name, "format": "CSV"}).status_code == 201
        )
    return names


def _walk(http: httpx2.Client, url: str, field: str = "name", **params: str) -> list[str]:
    names: list[str] = []
    token: str | None = ""
    while token is not None:
        page = http.get(url, params={**params, **({"page_token": token} if token else {})}).json()
        names += [each[field] for each in page["items"]]
        token = page["next_page_token"]
    return names


def test_pages_are_of_one_moment_whatever_happens_between_them(
    http: httpx2.Client, schema: str
) -> None:
    names = _fill(http, schema, 7)
    tables = f"{schema}/tables"
    first = http.get(tables, params={"page_size": 3}).json()
    http.delete(f"{tables}/t005")
    http.post(tables, json={"name": "t004b", "format": "CSV"})
    http.patch(f"{tables}/t000", json={"name": "t999"})
    token = first["next_page_token"]
    rest = http.get(tables, params={"page_size": 100, "page_token": token}).json()
    assert [each["name"] for each in first["items"] + rest["items"]] == names
    assert _walk(http, tables, page_size="2") == [
        "t001",
        "t002",
        "t003",
        "t004",
        "t004b",
        "t006",
        "t999",
    ]


def test_a_list_goes_on_from_the_key_when_its_manifest_is_gone(
    http: httpx2.Client, schema: str
) -> None:
    _fill(http, schema, 4)
    page_token = urlsafe_b64encode(b'[99999999,"t001"]').rstrip(b"=").decode()
    page = http.get(f"{schema}/tables", params={"page_token": page_token}).json()
    assert [each["name"] for each in page["items"]] == ["t002", "t003"]


@pytest.mark.parametrize(
    "token",
    ["x", "", "W10", "WzEsMl0", "é", "WzEsImEiXQ==", "WzEsImEiXQ\n", "WyAxLCJhIl0", "A" * 5000],
)
def test_a_page_token_that_is_not_ours_is_400(http: httpx2.Client, token: str) -> None:
    for url in ("/api/v1/catalogs", "/api/v1/commits"):
        answer = http.get(url, params={"page_token": token})
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid")


@pytest.mark.parametrize(
    "query",
    ["page_size=0", "page_size=1001", "page_size=-1", "page_size=1e3", "page_size=x", "page_size=",
     "page_size=1&page_size=2", "pagesize=1", "dropped=yes", "dropped=1", "as_of=yesterday", "%ff=1",
     "as_of=2026-01-01T00:00:00"],
)  # fmt: skip
def test_a_parameter_that_is_wrong_is_400(http: httpx2.Client, query: str) -> None:
    assert http.get(f"/api/v1/catalogs?{query}").status_code == 400


@pytest.mark.parametrize("size", ["1", "2", "3", "100"])
def test_dropped_objects_of_one_name_are_listed_page_by_page(
    http: httpx2.Client, catalog: str, schema: str, size: str
) -> None:
    tables, schemas = f"{schema}/tables", f"/api/v1/catalogs/{catalog}/schemas"
    for name in ("a", "a", "a", "b"):
        http.post(tables, json={"name": name, "format": "CSV"})
        http.delete(f"{tables}/{name}")
        http.post(schemas, json={"name": name})
        http.delete(f"{schemas}/{name}")
    for url in (tables, schemas):
        first = http.get(url, params={"dropped": "true", "page_size": size}).json()
        assert len(first["items"]) == min(4, int(size))
        assert _walk(http, url, dropped="true", page_size=size) == ["a", "a", "a", "b"]
        assert len(set(_walk(http, url, "id", dropped="true", page_size=size))) == 4


def test_what_has_not_changed_is_304_and_what_has_is_not(http: httpx2.Client, table: str) -> None:
    tables = table.rpartition("/")[0]
    for url in (table, tables, "/api/v1/catalogs?page_size=1", "/api/v1/commits/0"):
        tag = http.get(url).headers["etag"]
        for spelled in (tag, f'"other", {tag}', f"W/{tag}", "*"):
            answer = http.get(url, headers={"If-None-Match": spelled})
            assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", tag)
        for other in ('"0-0"', "nonsense", '"'):
            assert http.get(url, headers={"If-None-Match": other}).status_code == 200
    before = {url: http.get(url).headers["etag"] for url in (table, tables)}
    http.patch(table, json={"comment": "new"})
    for url, tag in before.items():
        assert http.get(url, headers={"If-None-Match": tag}).status_code == 200


def test_an_object_whose_container_was_renamed_is_never_304(
    http: httpx2.Client, table: str
) -> None:
    born = http.get(table)
    by_id = f"/api/v1/objects/{born.json()['id']}"
    tag = born.headers["etag"]
    assert http.get(by_id, headers={"If-None-Match": tag}).status_code == 304
    schema = table.partition("/tables")[0]
    http.patch(schema, json={"name": "cooked"})
    answer = http.get(by_id, headers={"If-None-Match": tag})
    assert (answer.status_code, answer.json()["schema"]) == (200, ["cooked"])


def test_a_change_of_what_is_not_expected_is_412_and_changes_nothing(
    http: httpx2.Client, table: str
) -> None:
    stale = http.get(table).headers["etag"]
    fresh = http.patch(table, json={"comment": "1"}, headers={"If-Match": stale}).headers["etag"]
    for tag in (stale, f"W/{fresh}", '"none-of-ours"'):
        headers = {"If-Match": tag}
        for refused in (
            http.patch(table, json={"comment": "2"}, headers=headers),
            http.delete(table, headers=headers),
            http.delete(f"{table}/columns/id", headers=headers),
        ):
            assert (refused.status_code, refused.json()["code"]) == (412, "precondition_failed")
    assert http.get(table).json()["comment"] == "1"
    assert http.patch(table, json={}, headers={"If-Match": "17"}).status_code == 400
    assert http.patch(table, json={}, headers={"If-Match": '"1", "2"'}).status_code == 400
    assert http.delete(table, headers={"If-Match": "*"}).status_code == 204


def test_if_match_takes_a_commit_alone_too(http: httpx2.Client, table: str) -> None:
    commit = http.get(table).json()["commit"]
    for tag in (f'"{commit - 1}"', f'"{commit}-00000000"', f'"{commit}-"', f'"0{commit}"'):
        refused = http.patch(table, json={"comment": "x"}, headers={"If-Match": tag})
        assert refused.status_code == 412, tag
    given = {"If-Match": f'"{commit}"'}
    assert http.patch(table, json={"comment": "x"}, headers=given).status_code == 200


def _twins(http: httpx2.Client, catalog: str) -> tuple[str, str, str]:
    """The URLs of two schemas, and a name that tables in both have, made by one commit."""
    schemas = [f"/api/v1/catalogs/{catalog}/schemas/{name}" for name in ("blue", "green")]
    for url in schemas:
        parent, _, name = url.rpartition("/")
        assert http.post(parent, json={"name": name}).status_code == 201

    def make(url: str, name: str) -> int:
        made = http.post(f"{url}/tables", json={"name": name, "format": "CSV"})
        commit: int = made.json()["commit"]
        return commit

    with ThreadPoolExecutor(8) as pool:
        for attempt in range(50):
            names = [f"t{attempt}_{number}" for number in range(4)]
            wanted = [(url, name) for name in names for url in schemas]
            commits = list(pool.map(lambda each: make(*each), wanted))
            for at, name in enumerate(names):
                if commits[2 * at] == commits[2 * at + 1]:
                    return schemas[0], schemas[1], name
    pytest.fail("no commit made two tables")


def test_two_objects_of_one_commit_are_never_taken_for_each_other(
    http: httpx2.Client, catalog: str
) -> None:
    blue, green, name = _twins(http, catalog)
    table = f"{blue}/tables/{name}"
    mine, other = http.get(table), http.get(f"{green}/tables/{name}")
    tag = mine.headers["etag"]
    assert mine.json()["commit"] == other.json()["commit"]
    assert tag != other.headers["etag"]
    for url, renamed in ((blue, "was_blue"), (green, "blue")):
        assert http.patch(url, json={"name": renamed}).status_code == 200
    now = http.get(table, headers={"If-None-Match": tag})
    assert (now.status_code, now.json()["id"]) == (200, other.json()["id"])
    for refused in (
        http.patch(table, json={"comment": "mine"}, headers={"If-Match": tag}),
        http.post(
            f"{table}/columns", json={"name": "x", "data_type": "int"}, headers={"If-Match": tag}
        ),
        http.delete(table, headers={"If-Match": tag}),
    ):
        assert (refused.status_code, refused.json()["code"]) == (412, "precondition_failed")
    assert http.get(table).json() == now.json()
    moved = table.replace("/blue/", "/was_blue/")
    assert http.get(moved, headers={"If-None-Match": tag}).status_code == 304
    assert http.delete(moved, headers={"If-Match": tag}).status_code == 204


def test_every_read_can_be_as_of_a_number_a_commit_or_a_time(
    http: httpx2.Client, table: str
) -> None:
    born = http.get(table)
    number = born.json()["commit"]
    commit = http.get(f"/api/v1/commits/{number}").json()["commit"]
    published = http.get("/api/v1/manifests/catalog", params={"as_of": number}).json()
    http.patch(table, json={"comment": "later", "name": "bills"})
    tables = table.rpartition("/")[0]
    catalog = tables.partition("/schemas")[0]
    for point in (str(number), commit["commit_ulid"], published["created_at"]):
        then = {"as_of": point}
        assert http.get(table, params=then).json() == born.json(), point
        assert [each["name"] for each in http.get(tables, params=then).json()["items"]] == [
            "orders"
        ]
        assert http.get(f"/api/v1/objects/{born.json()['id']}", params=then).json() == born.json()
        assert http.get(f"{catalog}/schemas", params=then).json()["items"]
        assert http.get("/api/v1/commits", params=then).json()["items"][0]["number"] == number
        assert http.get("/api/v1/manifests/catalog", params=then).json()["number"] == number
        assert http.get(f"{table}/schema-history", params=then).status_code == 200
        history = f"/api/v1/objects/{born.json()['id']}/history"
        assert len(http.get(history, params=then).json()["items"]) == 1
    assert http.get(table).status_code == 404
    assert http.get(catalog, params={"as_of": "999999"}).status_code == 404


def test_the_difference_between_two_points_names_what_changed(
    http: httpx2.Client, table: str
) -> None:
    number = http.get(table).json()["commit"]
    http.patch(table, json={"comment": "new"})
    http.post(f"{table}/columns", json={"name": "more", "data_type": "int"})
    http.post(table.rpartition("/")[0], json={"name": "other", "format": "CSV"})
    actual = http.get("/api/v1/diff", params={"from": number}).json()
    changes = {each["name"].rpartition(".")[2]: each for each in actual["items"]}
    assert {name: each["change"] for name, each in changes.items()} == {
        "orders": "updated",
        "other": "created",
    }
    assert changes["orders"]["after"]["comment"] == "new"
    both = {"from": number, "to": actual["to"]}
    first = http.get("/api/v1/diff", params={**both, "page_size": 1}).json()
    http.delete(table)
    token = first["next_page_token"]
    rest = http.get("/api/v1/diff", params={"from": number, "page_token": token}).json()
    assert (first["items"] + rest["items"], rest["to"]) == (actual["items"], actual["to"])
    assert http.get("/api/v1/diff").status_code == 400


def test_pages_of_a_difference_have_the_ends_of_the_first_one(
    http: httpx2.Client, schema: str
) -> None:
    before = http.get("/api/v1/manifests/catalog").json()
    _fill(http, schema, 3)
    asked = {"from": before["created_at"], "page_size": "1"}
    first = http.get("/api/v1/diff", params=asked).json()
    http.patch(schema, json={"comment": "later"})
    token = first["next_page_token"]
    later = http.get("/api/v1/diff", params={"from": "999999", "page_token": token}).json()
    assert (later["from"], later["to"]) == (before["number"], first["to"])
    assert _walk(http, "/api/v1/diff", "id", **asked)[0] == first["items"][0]["id"]


@pytest.mark.parametrize("key", ["", "x", "0", "0,1", "0,1,x", "-1,0,", "0,1," + "g" * 36])
def test_a_token_of_another_list_is_no_token_of_a_difference(http: httpx2.Client, key: str) -> None:
    token = urlsafe_b64encode(f'[0,"{key}"]'.encode()).rstrip(b"=").decode()
    answer = http.get("/api/v1/diff", params={"from": "0", "page_token": token})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid")


def test_commits_are_listed_newest_first_and_say_who_did_what(
    http: httpx2.Client, table: str
) -> None:
    number = http.get(table).json()["commit"]
    at = {"as_of": number, "page_size": 1}  # as of then, since a merge may have come after
    newest = http.get("/api/v1/commits", params=at).json()
    assert newest["items"][0]["number"] == number
    operation = newest["items"][0]["commit"]["deeds"][0]
    assert (operation["operation"], operation["actor"]) == ("create_table", "user:local")
    token = newest["next_page_token"]
    following = http.get("/api/v1/commits", params={"page_token": token, "page_size": 3}).json()
    assert [each["number"] for each in following["items"]] == [number - 1, number - 2, number - 3]
    for wrong in ("x", "-1", "1.0", "9" * 30, "٣"):
        assert http.get(f"/api/v1/commits/{wrong}").status_code == 400
    assert http.get("/api/v1/commits/99999999").status_code == 404


def test_the_manifest_of_a_domain_is_shown_and_an_unknown_domain_is_404(
    http: httpx2.Client,
) -> None:
    manifest = http.get("/api/v1/manifests/catalog").json()
    assert manifest["manifest"]["domain"] == "catalog"
    assert http.get("/api/v1/manifests/nothing").status_code == 404


@pytest.mark.parametrize("domain", ["executions", "lineage", "search"])
def test_a_domain_in_which_nothing_was_published_yet_says_so(
    http: httpx2.Client, domain: str
) -> None:
    empty = {"number": -1, "sha256": None, "created_at": None, "manifest": None}
    assert http.get(f"/api/v1/manifests/{domain}").json() == {"domain": domain, **empty}
    assert http.get(f"/api/v1/manifests/{domain}?as_of=0").status_code == 404


def test_head_answers_like_get_without_a_body(http: httpx2.Client, table: str) -> None:
    tables = table.rpartition("/")[0]
    for url in (
        table,
        tables,
        "/api/v1/commits",
        "/health/live",
        "/api/v1/openapi.json",
        f"{tables}/none",
    ):
        got, headed = http.get(url), http.head(url)
        assert headed.status_code == got.status_code
        assert headed.content == b""
        for name in ("content-length", "content-type", "etag"):
            assert headed.headers.get(name) == got.headers.get(name)


COLUMNS = [{"name": f"c{number}", "data_type": "int"} for number in range(10_000)]
TABLES = "/api/v1/catalogs/default/schemas/wide/tables"


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    """Three tables with ten thousand columns; the first has three versions of them."""
    root: Path = tmp_path_factory.mktemp("wide") / "store"
    with served(root) as api, api.client() as http:
        assert http.post("/api/v1/catalogs/default/schemas", json={"name": "wide"}).is_success
        for name in "abc":
            body = {"name": name, "format": "CSV", "columns": COLUMNS}
            assert http.post(TABLES, json=body).status_code == 201
        for comment in ("1", "2"):
            changed = http.patch(f"{TABLES}/a/columns/c0", json={"comment": comment})
            assert changed.status_code == 200
        yield http


def _pages(http: httpx2.Client, url: str, field: str, **params: str) -> list[list[Any]]:
    pages: list[list[Any]] = []
    token: str | None = ""
    while token is not None:
        more = {"page_token": token} if token else {}
        page = http.get(url, params={**params, **more}).json()
        pages.append([each[field] for each in page["items"]])
        token = page["next_page_token"]
    return pages


def test_a_list_with_columns_ends_its_pages_early(wide: httpx2.Client) -> None:
    assert _pages(wide, TABLES, "name", include="columns") == [["a", "b"], ["c"]]
    assert _pages(wide, TABLES, "name", include="columns", page_size="1") == [["a"], ["b"], ["c"]]
    assert _pages(wide, TABLES, "name") == [["a", "b", "c"]]


def test_versions_of_columns_are_listed_a_few_at_a_time(wide: httpx2.Client) -> None:
    assert _pages(wide, f"{TABLES}/a/schema-history", "version") == [[3, 2], [1]]
    assert _pages(wide, f"{TABLES}/a/schema-history", "version", page_size="1") == [[3], [2], [1]]


def test_versions_of_a_wide_table_are_listed_a_few_at_a_time(wide: httpx2.Client) -> None:
    object_id = wide.get(f"{TABLES}/a").json()["id"]
    pages = _pages(wide, f"/api/v1/objects/{object_id}/history", "operation")
    assert pages == [["update_column", "update_column"], ["create_table"]]


def test_a_difference_of_wide_tables_ends_its_pages_early(wide: httpx2.Client) -> None:
    pages = _pages(wide, "/api/v1/diff", "kind", **{"from": "1"})
    assert [len(page) for page in pages] == [2, 1]


def test_a_token_above_all_versions_begins_with_the_newest(wide: httpx2.Client) -> None:
    number = wide.get("/api/v1/manifests/catalog").json()["number"]
    params = {"page_token": PageCursor(number, "9" * 18).encode(), "page_size": "1"}
    page = wide.get(f"{TABLES}/a/schema-history", params=params).json()
    assert [each["version"] for each in page["items"]] == [3]
