import math
from contextlib import suppress
from itertools import permutations
from typing import Any

import msgspec
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from arco.core import json
from arco.core.errors import Invalid
from arco.core.json import Json

DEEP = 100_000

BOMBS: dict[str, bytes] = {
    "empty": b"",
    "only space": b" \n",
    "deep lists": b"[" * DEEP + b"]" * DEEP,
    "deep lists, open": b"[" * DEEP,
    "deep objects": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "bad utf-8": b'{"a": "\xff\xfe"}',
    "overlong utf-8": b'"\xc0\xae"',
    "half a character": b'"\xe2\x82"',
    "a surrogate in utf-8": b'"\xed\xa0\x80"',
    "NUL in a string": b'"a\x00b"',
    "NUL between tokens": b"[1,\x002]",
    "10 MB of one open string": b'"' + b"x" * 10_000_000,
    "NaN": b"NaN",
    "Infinity": b"[-Infinity]",
    "a trailing comma": b"[1,]",
    "two documents": b"{} {}",
    "a bad escape": b'"\\q"',
    "a byte order mark": b"\xef\xbb\xbf{}",
}


class Point(msgspec.Struct):
    x: int
    y: int = 0


@pytest.mark.parametrize("data", BOMBS.values(), ids=BOMBS.keys())
@pytest.mark.parametrize("kind", [object, dict, Point])
def test_a_bomb_is_invalid_and_the_reason_is_one_short_sentence(data: bytes, kind: Any) -> None:
    with pytest.raises(Invalid) as refused:
        json.decode(data, kind)
    assert 0 < len(str(refused.value)) < 200
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("digits", [20, 400, 5_000, 1_000_000])
def test_a_huge_integer_is_invalid_or_exact_and_never_rounded(digits: int) -> None:
    try:
        point = json.decode(b'{"x": ' + b"9" * digits + b"}", Point)
    except Invalid:
        return
    assert point.x == 10**digits - 1


def test_ten_megabytes_of_well_formed_json_are_read() -> None:
    assert json.decode(b'["' + b"x" * 10_000_000 + b'"]', list[str]) == ["x" * 10_000_000]


def test_wrong_types_are_invalid_and_name_the_field() -> None:
    with pytest.raises(Invalid, match=r"\$\.x"):
        json.decode(b'{"x": "one"}', Point)
    with pytest.raises(Invalid, match="missing required field `x`"):
        json.decode(b"{}", Point)


def test_of_a_key_given_twice_the_last_counts() -> None:
    # So whatever is hashed or signed is compared with the bytes received, never re-encoded.
    assert json.decode(b'{"x": 1, "x": 2}', Point) == Point(2)


@given(st.binary(max_size=200))
def test_no_bytes_make_the_way_in_raise_anything_but_invalid(data: bytes) -> None:
    with suppress(Invalid):
        json.decode(data, object)


documents: st.SearchStrategy[Json] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(documents)
def test_what_went_out_comes_back(document: Json) -> None:
    assert json.decode(json.encode(document), object) == document
    assert json.decode(json.canonical(document), object) == document


def test_equal_documents_have_equal_canonical_bytes() -> None:
    pairs: list[tuple[str, Json]] = [("b", 1.0), ("a", [True, None]), ("é", "x"), ("\U0001f600", 2)]
    spellings = {json.canonical(dict(order)) for order in permutations(pairs)}
    assert spellings == {'{"a":[true,null],"b":1,"é":"x","\U0001f600":2}'.encode()}


@pytest.mark.parametrize(
    "value",
    [
        2**53,
        -(2**53),
        10**400,
        math.nan,
        math.inf,
        -math.inf,
        "\ud800",
        {"\ud800": 1},
        {1: 2},
        b"x",
    ],
    ids=repr,
)
def test_what_has_no_canonical_form_is_invalid(value: Any) -> None:
    with pytest.raises(Invalid):
        json.canonical([value])


def test_a_document_too_deep_for_a_canonical_form_is_invalid() -> None:
    deep: list[Json] = []
    for _ in range(DEEP):
        deep = [deep]
    with pytest.raises(Invalid):
        json.canonical(deep)


def test_an_integer_is_kept_up_to_the_last_that_every_reader_has() -> None:
    assert json.canonical(2**53 - 1) == b"9007199254740991" == rfc8785.dumps(2**53 - 1)
