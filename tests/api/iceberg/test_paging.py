"""Lists, whole and page by page."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.api.iceberg.queries import decode_token, encode_token
from arco.core.errors import Invalid
from tests.api.iceberg.warehouse import Warehouse, refusal

NAMES = [f"t{number:02d}" for number in range(7)]


@given(st.text(min_size=1, max_size=255).filter(lambda text: text.isprintable()))
def test_a_token_gives_the_name_back(name: str) -> None:
    token = encode_token(name)
    assert decode_token(token) == name
    assert token.isascii()
    assert not set(token) & set("+/=&?%")


@given(st.text(max_size=60))
def test_what_is_no_token_is_invalid(text: str) -> None:
    try:
        name = decode_token(text)
    except Invalid:
        return
    assert encode_token(name) == text


def _pages(warehouse: Warehouse, url: str, size: int, key: str, **params: str) -> list[list[Any]]:
    pages, token = [], ""
    while token is not None:
        asked = {**params, "pageToken": token, "pageSize": str(size)}
        answer = warehouse.http.get(url, params=asked)
        assert answer.status_code == 200, answer.text
        pages.append(answer.json()[key])
        token = answer.json()["next-page-token"]
        assert token != ""
    return pages


def test_without_a_token_everything_is_listed_at_once(warehouse: Warehouse) -> None:
    for name in NAMES:
        warehouse.make_table(name)
    url = warehouse.url("namespaces", "db", "tables")
    expected = [{"namespace": ["db"], "name": name} for name in NAMES]
    for query in ("", "?pageSize=2"):
        answer = warehouse.http.get(url + query).json()
        assert answer == {"identifiers": expected, "next-page-token": None}


@pytest.mark.parametrize("size", [1, 2, 6, 7, 8])
def test_pages_hold_each_table_once_and_the_last_has_no_token(
    warehouse: Warehouse, size: int
) -> None:
    for name in NAMES:
        warehouse.make_table(name)
    pages = _pages(warehouse, warehouse.url("namespaces", "db", "tables"), size, "identifiers")
    assert [each["name"] for page in pages for each in page] == NAMES
    assert len(pages) == -(-len(NAMES) // size)


def test_namespaces_and_views_are_paged_as_well(warehouse: Warehouse) -> None:
    for name in NAMES:
        warehouse.make_namespace("db", name)
        warehouse.make_view(name)
    namespaces = _pages(warehouse, warehouse.url("namespaces"), 3, "namespaces", parent="db")
    assert [each for page in namespaces for each in page] == [["db", name] for name in NAMES]
    views = _pages(warehouse, warehouse.url("namespaces", "db", "views"), 3, "identifiers")
    assert [len(page) for page in views] == [3, 3, 1]


def test_a_page_without_a_size_has_one_of_our_own(warehouse: Warehouse) -> None:
    answer = warehouse.http.get(warehouse.url("namespaces"), params={"pageToken": ""})
    assert answer.json() == {"namespaces": [["db"]], "next-page-token": None}


def test_a_page_goes_on_after_a_name_that_is_gone(warehouse: Warehouse) -> None:
    for name in NAMES:
        warehouse.make_table(name)
    url = warehouse.url("namespaces", "db", "tables")
    first = warehouse.http.get(url, params={"pageToken": "", "pageSize": 3}).json()
    assert warehouse.http.delete(warehouse.table(NAMES[2])).status_code == 204
    params = {"pageToken": first["next-page-token"], "pageSize": 100}
    rest = warehouse.http.get(url, params=params).json()["identifiers"]
    assert [each["name"] for each in rest] == NAMES[3:]


@pytest.mark.parametrize("token", ["x", "nonsense", "MQ", "MTA=", "äöü", "x" * 3_000])
def test_a_token_that_is_not_ours_is_400(warehouse: Warehouse, token: str) -> None:
    for url in (
        warehouse.url("namespaces"),
        warehouse.url("namespaces", "db", "tables"),
        warehouse.url("namespaces", "db", "views"),
        warehouse.url("namespaces", "db", "functions"),
    ):
        answer = warehouse.http.get(url, params={"pageToken": token})
        assert refusal(answer) == (400, "BadRequestException")


@pytest.mark.parametrize("size", ["0", "-1", "x", "1.5", ""])
def test_a_size_that_is_none_is_400(warehouse: Warehouse, size: str) -> None:
    answer = warehouse.http.get(warehouse.url("namespaces") + f"?pageToken=&pageSize={size}")
    assert refusal(answer) == (400, "BadRequestException")


def test_a_size_beyond_our_own_bound_is_no_error(warehouse: Warehouse) -> None:
    url = warehouse.url("namespaces") + "?pageToken=&pageSize=1000000"
    assert warehouse.http.get(url).status_code == 200


def test_a_list_in_a_namespace_that_is_not_there_is_404(warehouse: Warehouse) -> None:
    for kind in ("tables", "views", "functions"):
        answer = warehouse.http.get(warehouse.url("namespaces", "nowhere", kind))
        assert refusal(answer) == (404, "NoSuchNamespaceException")
    answer = warehouse.http.get(warehouse.url("namespaces"), params={"parent": "nowhere"})
    assert refusal(answer) == (404, "NoSuchNamespaceException")
