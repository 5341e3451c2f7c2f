"""Loading what one has already costs no body."""

import gzip

import pytest

from tests.api.iceberg.warehouse import Warehouse, refusal


def test_a_table_that_is_known_is_304_without_a_body(warehouse: Warehouse) -> None:
    warehouse.make_table("orders")
    url = warehouse.table("orders")
    first = warehouse.http.get(url)
    second = warehouse.http.get(url, headers={"If-None-Match": first.headers["etag"]})
    assert (second.status_code, second.content) == (304, b"")
    assert second.headers["etag"] == first.headers["etag"]
    assert "content-type" not in second.headers
    assert "content-length" not in second.headers


@pytest.mark.parametrize(
    "sent_tags", ["{0}", "W/{0}", '"other", {0}', 'W/"x",W/{0} , "y"', '{0},"z"']
)
def test_one_of_several_tags_is_enough_and_a_weak_one_too(
    warehouse: Warehouse, sent_tags: str
) -> None:
    etag = warehouse.make_table("orders").headers["etag"]
    headers = {"If-None-Match": sent_tags.format(etag)}
    assert warehouse.http.get(warehouse.table("orders"), headers=headers).status_code == 304


def test_tags_on_several_lines_are_one_list(warehouse: Warehouse) -> None:
    etag = warehouse.make_table("orders").headers["etag"]
    headers = [("If-None-Match", etag), ("If-None-Match", '"other"')]
    assert warehouse.http.get(warehouse.table("orders"), headers=headers).status_code == 304


@pytest.mark.parametrize("sent_tags", ['"other"', "unquoted", "", '"a" "b"'])
def test_another_tag_is_answered_in_full(warehouse: Warehouse, sent_tags: str) -> None:
    warehouse.make_table("orders")
    headers = {"If-None-Match": sent_tags}
    assert warehouse.http.get(warehouse.table("orders"), headers=headers).status_code == 200


def test_a_star_is_400(warehouse: Warehouse) -> None:
    warehouse.make_table("orders")
    answer = warehouse.http.get(warehouse.table("orders"), headers={"If-None-Match": "*"})
    assert refusal(answer) == (400, "BadRequestException")


def test_each_form_has_a_tag_of_its_own(warehouse: Warehouse) -> None:
    warehouse.make_table("orders")
    url = warehouse.table("orders")
    tags = {
        form: warehouse.http.get(url, params={"snapshots": form}).headers["etag"]
        for form in ("all", "refs")
    }
    assert tags["all"] != tags["refs"]
    assert warehouse.http.get(url).headers["etag"] == tags["all"]
    crossed = warehouse.http.get(url + "?snapshots=refs", headers={"If-None-Match": tags["all"]})
    assert crossed.status_code == 200
    same = warehouse.http.get(url + "?snapshots=refs", headers={"If-None-Match": tags["refs"]})
    assert same.status_code == 304
    answer = warehouse.http.get(url, params={"snapshots": "some"})
    assert refusal(answer) == (400, "BadRequestException")


def test_create_load_commit_and_register_return_the_current_tag(
    warehouse: Warehouse,
) -> None:
    made = warehouse.make_table("orders")
    loaded = warehouse.http.get(warehouse.table("orders"))
    assert made.headers["etag"] == loaded.headers["etag"]
    assert made.json()["metadata-location"] == loaded.json()["metadata-location"]
    done = warehouse.set_property("orders", "a", "b")
    assert done.status_code == 200
    assert done.headers["etag"] != loaded.headers["etag"]
    now = warehouse.http.get(warehouse.table("orders"))
    assert now.headers["etag"] == done.headers["etag"]
    unregistered = warehouse.http.post(warehouse.table("orders") + "/unregister")
    assert unregistered.status_code == 200
    assert "etag" not in unregistered.headers
    location = unregistered.json()["metadata-location"]
    assert location == now.json()["metadata-location"]
    body = {"name": "again", "metadata-location": location}
    back = warehouse.http.post(warehouse.url("namespaces", "db", "register"), json=body)
    assert back.status_code == 200, back.text
    assert back.headers["etag"] == warehouse.http.get(warehouse.table("again")).headers["etag"]


def test_what_was_only_staged_has_no_tag_and_no_location(warehouse: Warehouse) -> None:
    body = {"name": "staged", "schema": {"type": "struct", "fields": []}, "stage-create": True}
    answer = warehouse.http.post(warehouse.url("namespaces", "db", "tables"), json=body)
    assert answer.status_code == 200
    assert answer.json()["metadata-location"] is None
    assert "etag" not in answer.headers
    assert warehouse.http.head(warehouse.table("staged")).status_code == 404


@pytest.mark.parametrize(
    ("accepted", "packed"),
    [
        ("gzip", True),
        ("deflate, gzip;q=0.5, br", True),
        ("GZIP, deflate", True),
        ("gzip;q=0", False),
        ("gzip; q=0.0, br", False),
        ("identity", False),
        ("br, notgzip", False),
    ],
)
def test_metadata_are_compressed_for_those_who_read_that(
    warehouse: Warehouse, accepted: str, packed: bool
) -> None:
    warehouse.make_table("orders")
    assert warehouse.set_property("orders", "long", "x" * 4_000).status_code == 200
    url = warehouse.table("orders")
    plain = warehouse.http.get(url, headers={"Accept-Encoding": "identity"})
    with warehouse.http.stream("GET", url, headers={"Accept-Encoding": accepted}) as answer:
        raw = b"".join(answer.iter_raw())
        assert answer.headers["vary"] == "Accept-Encoding"
        assert (answer.headers.get("content-encoding") == "gzip") is packed
        assert answer.headers["etag"] == plain.headers["etag"]
        assert int(answer.headers["content-length"]) == len(raw)
    assert (gzip.decompress(raw) if packed else raw) == plain.content
    assert (len(raw) < len(plain.content)) is packed
