import re
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core.errors import Invalid
from arco.core.ids import MAX_NUMBERED, new_object_id, new_ulid, numbered_ulid, parse_ulid
from tests.clocks import HandClock, hand_runtime

CROCKFORD = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}\Z")
MOMENTS = st.integers(0, 2**48 - 1)


@given(MOMENTS, st.integers())
def test_a_ulid_is_26_characters_of_crockford_base_32(now_ms: int, seed: int) -> None:
    ulid = new_ulid(hand_runtime(HandClock(now_ms), seed))
    assert CROCKFORD.match(ulid)
    assert parse_ulid(ulid) == ulid


@given(MOMENTS, st.integers())
def test_an_object_id_is_a_uuid_of_version_7_that_holds_its_moment(now_ms: int, seed: int) -> None:
    uuid = UUID(new_object_id(hand_runtime(HandClock(now_ms), seed)))
    assert (uuid.version, uuid.variant) == (7, "specified in RFC 4122")
    assert uuid.int >> 80 == now_ms


@given(st.lists(MOMENTS, min_size=2, unique=True))
def test_ids_sort_by_the_moment_they_were_minted(moments: list[int]) -> None:
    clocks = [HandClock(now_ms) for now_ms in sorted(moments)]
    for mint in (new_ulid, new_object_id):
        ids = [mint(hand_runtime(clock, seed)) for seed, clock in enumerate(clocks)]
        assert ids == sorted(ids)


def test_ids_of_one_moment_differ() -> None:
    runtime = hand_runtime(HandClock())
    assert len({new_ulid(runtime) for _ in range(10_000)}) == 10_000
    assert len({new_object_id(runtime) for _ in range(10_000)}) == 10_000


def test_the_same_seed_mints_the_same_ids() -> None:
    one, two = hand_runtime(HandClock(), 7), hand_runtime(HandClock(), 7)
    assert [new_ulid(one) for _ in range(9)] == [new_ulid(two) for _ in range(9)]


def test_a_clock_before_1970_still_mints_ids() -> None:
    assert new_ulid(hand_runtime(HandClock(-5))).startswith("0000000000")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0" * 25,
        "0" * 27,
        "8" + "0" * 25,  # does not fit into 128 bits
        "0" * 25 + "I",
        "0" * 25 + "u",
        "01arz3ndektsv4rrffq69g5fav",  # one id has one spelling
        "0" * 25 + "\0",
        "0" * 25 + "é",
        "0" * 25 + "\ud800",
        " " + "0" * 25,
        "٠" * 26,
    ],
)
def test_what_is_not_a_ulid_in_its_one_spelling_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse_ulid(text)


@given(st.text(max_size=60))
def test_no_text_makes_the_parser_raise_anything_but_invalid(text: str) -> None:
    try:
        assert CROCKFORD.match(parse_ulid(text))
    except Invalid as refused:
        assert len(str(refused)) < 500


@given(MOMENTS, st.integers(), st.integers(0, MAX_NUMBERED - 1), st.integers(0, MAX_NUMBERED - 1))
def test_the_ids_of_a_batch_are_ulids_that_sort_by_their_numbers(
    now_ms: int, seed: int, one: int, two: int
) -> None:
    batch = new_ulid(hand_runtime(HandClock(now_ms), seed))
    first, second = numbered_ulid(batch, one), numbered_ulid(batch, two)
    assert parse_ulid(first) == first
    assert first[:22] == batch[:22]
    assert (first < second) == (one < two)
    assert (first == second) == (one == two)


@pytest.mark.parametrize("number", [-1, MAX_NUMBERED])
def test_a_batch_has_no_more_numbers_than_fit(number: int) -> None:
    batch = new_ulid(hand_runtime(HandClock()))
    with pytest.raises(Invalid, match="numbers"):
        numbered_ulid(batch, number)
