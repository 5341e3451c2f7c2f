import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core.errors import Invalid
from arco.storage.key import check_key, check_prefix

GOOD = (
    *("a", "a/b", "tenant=a/workspace=b/x.json", "with space", "ünïcode", "日本語", "😀"),
    *(
        "a%2e%2e/b",
        "...",
        "a..b",
        ".hidden",
        "-",
        "~",
        "x" * 255,
        "é" * 127,
        "/".join(["x" * 255] * 3),
    ),
)
BAD = (
    *("", "/", "/a", "a/", "a//b", ".", "..", "./a", "a/.", "a/..", "../a", "a/../b", "a/./b"),
    *("a\\b", "\\", "a\0b", "\x00", "a\nb", "a\rb", "a\tb", "\x7f", "\x9f", "a\u2028b", "a\u2029b"),
    *("a\u202eb", "a\u200fb", "\u200b", "\ufeffa", "a\u00a0b", "\ud800", "a\udfffb", "\ufffe"),
    *("x" * 256, "é" * 128, "a/" * 512 + "a", "x" * 1025, "\ue000"),
)


@pytest.mark.parametrize("key", GOOD)
def test_a_key_that_every_store_can_hold_is_taken_unchanged(key: str) -> None:
    assert check_key(key) == key
    assert check_prefix(key + "/") == key + "/" if len(key.encode()) < 768 else True


@pytest.mark.parametrize("key", BAD)
def test_a_key_that_some_store_would_change_or_follow_is_refused(key: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_key(key)
    assert len(str(refused.value)) < 1_000


@pytest.mark.parametrize(
    "prefix", ["a", "a/b", "/", "//", "a//", "../", "a/../", ".", "a\0/", "\ud800/"]
)
def test_a_prefix_is_a_whole_number_of_parts(prefix: str) -> None:
    with pytest.raises(Invalid):
        check_prefix(prefix)


def test_an_empty_prefix_is_everything() -> None:
    assert check_prefix("") == ""


@given(st.text(st.characters(exclude_categories=[]), max_size=400))
def test_no_text_makes_the_check_raise_anything_but_invalid(text: str) -> None:
    try:
        checked = check_key(text)
    except Invalid:
        return
    assert checked == text
    assert 0 < len(text.encode()) <= 768
    assert not {"", ".", ".."} & set(text.split("/"))
    assert text.isprintable()
    assert "\\" not in text
