"""The object map: conditions, order and pages."""

import pytest

from tests.faults.objects import ALWAYS, Bucket, Condition, StoredObject


def put(bucket: Bucket, key: str, condition: Condition = ALWAYS) -> StoredObject | None:
    return bucket.put(key, key.encode(), "text/plain", {}, condition)


def filled(*names: str) -> Bucket:
    bucket = Bucket()
    for name in names:
        put(bucket, name)
    return bucket


def test_a_create_succeeds_once() -> None:
    bucket = Bucket()
    assert put(bucket, "a", Condition(if_absent=True)) is not None
    assert put(bucket, "a", Condition(if_absent=True)) is None


def test_a_deleted_name_can_be_created_again_with_a_later_generation() -> None:
    bucket = Bucket()
    first = put(bucket, "a", Condition(if_absent=True))
    assert bucket.delete("a")
    second = put(bucket, "a", Condition(if_absent=True))
    assert first is not None
    assert second is not None
    assert second.generation > first.generation


def test_an_update_names_the_version_that_it_replaces() -> None:
    bucket = Bucket()
    first = put(bucket, "a")
    assert first is not None
    assert put(bucket, "a", Condition(if_generation=first.generation)) is not None
    assert put(bucket, "a", Condition(if_generation=first.generation)) is None
    assert put(bucket, "a", Condition(if_etag=first.etag)) is not None
    assert put(bucket, "a", Condition(if_etag="another")) is None
    assert put(bucket, "absent", Condition(if_etag=first.etag)) is None


def test_a_listing_is_in_the_order_of_utf8_bytes() -> None:
    names = ["b", "a/z", "a", "ä", "😀", "A", "a.b", "\uffee"]
    page = filled(*names).page("", "", "", 100)
    listed = [stored.key for stored in page.objects]
    assert listed == sorted(names, key=lambda name: name.encode())


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
@pytest.mark.parametrize("delimiter", ["", "/"])
def test_pages_of_any_size_add_up_to_the_whole(limit: int, delimiter: str) -> None:
    bucket = filled("x", "d/a", "d/b", "d/b/c", "d/bb", "d0", "e/f/g", "e/f/h", "z/")
    full_page = bucket.page("", "", delimiter, 100)
    keys: list[str] = []
    prefixes: list[str] = []
    start: str | None = ""
    while start is not None:
        page = bucket.page("", start, delimiter, limit)
        assert len(page.objects) + len(page.common_prefixes) <= limit
        keys += [stored.key for stored in page.objects]
        prefixes += page.common_prefixes
        start = page.resume_at
    assert keys == [stored.key for stored in full_page.objects]
    assert prefixes == list(full_page.common_prefixes)


def test_a_delimiter_rolls_up_what_lies_below_the_prefix() -> None:
    page = filled("d/a", "d/b/c", "d/b/d", "d/e/f", "other").page("d/", "", "/", 100)
    assert [stored.key for stored in page.objects] == ["d/a"]
    assert page.common_prefixes == ("d/b/", "d/e/")
