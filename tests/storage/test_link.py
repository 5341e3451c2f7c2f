import re
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core import json
from arco.core.errors import ArcoError, Corrupt
from arco.core.hashing import sha256_hex
from arco.core.ids import parse_ulid
from arco.storage.link import Entry, make_entry, read_entry
from tests.clocks import HandClock, hand_runtime


class Apple(msgspec.Struct, tag="apple"):
    size: int


class Pear(msgspec.Struct, tag="pear"):
    size: int


def entry(body: object = "x", parent: Entry | None = None) -> Entry:
    return make_entry(hand_runtime(HandClock()), parent, body)


def changed(**fields: object) -> bytes:
    return json.encode({**json.decode(entry().raw, dict), **fields})


def test_a_link_names_its_parent_by_number_and_by_the_hash_of_its_bytes() -> None:
    first = entry("a")
    second = entry("b", first)
    assert (first.number, first.link.parent_sha256) == (0, None)
    assert (second.number, second.link.parent_sha256) == (1, sha256_hex(first.raw))
    assert read_entry(second.raw, 1, "here") == second


def test_a_link_carries_an_id_minted_for_exactly_these_bytes() -> None:
    runtime = hand_runtime(HandClock())
    one, two = make_entry(runtime, None, "same"), make_entry(runtime, None, "same")
    assert parse_ulid(one.link.create_id) != parse_ulid(two.link.create_id)
    assert one.raw != two.raw


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"garbage",
        b"null",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b"[" * 100_000,
        entry().raw[:-1],
        entry().raw + b"}",
        changed(number=1),
        changed(number="0"),
        changed(number=-1),
        changed(number=None),
        changed(format=2),
        changed(format="1"),
        changed(create_id=7),
        changed(parent_sha256=7),
        changed(created_at="yesterday"),
        changed(created_at="2026-01-01T00:00:00"),  # of which place?
        changed(tombstone="no"),
    ],
    ids=lambda raw: re.sub(rb"\W+", b"-", raw[-30:]).decode() or "empty",
)
def test_bytes_that_are_not_the_link_they_should_be_are_corrupt(raw: bytes) -> None:
    with pytest.raises(Corrupt, match="number 0 of somewhere"):
        read_entry(raw, 0, "somewhere")


def test_a_newer_format_is_refused_with_what_to_do() -> None:
    with pytest.raises(Corrupt, match="update Arco"):
        read_entry(changed(format=99), 0, "somewhere")


@given(st.binary())
def test_no_bytes_make_a_reader_raise_anything_but_corrupt(raw: bytes) -> None:
    with pytest.raises(Corrupt):
        read_entry(raw, 0, "somewhere")


@given(st.data())
def test_one_changed_byte_is_corrupt_or_changes_the_hash(data: st.DataObject) -> None:
    good = entry({"rows": [1, 2, 3]}).raw
    at = data.draw(st.integers(0, len(good) - 1))
    raw = bytearray(good)
    raw[at] ^= data.draw(st.integers(1, 255))
    with suppress(Corrupt):
        assert read_entry(bytes(raw), 0, "here").sha256() != sha256_hex(good)


@pytest.mark.parametrize("kind", [int, list[int], Apple, Apple | Pear, dict[str, int]])
def test_a_body_of_another_kind_is_corrupt(kind: Any) -> None:
    with pytest.raises(Corrupt, match="number 0"):
        entry({"type": "plum"}).body(kind)


def test_a_body_is_read_as_one_of_several_kinds() -> None:
    kinds: Any = Apple | Pear
    assert entry(Pear(3)).body(kinds) == Pear(3)


@pytest.mark.parametrize("now_ms", [-1, 0, 253_402_300_799_999, 10**18])
def test_a_wild_clock_makes_no_link_that_cannot_be_followed(now_ms: int) -> None:
    clock = HandClock(now_ms)
    parent = None
    try:
        for _ in range(3):
            parent = make_entry(hand_runtime(clock), parent, "x")
    except ArcoError:
        assert parent is None  # refused at once, before anything was stored that others must follow
    else:
        assert parent is not None
        assert read_entry(parent.raw, 2, "here") == parent
