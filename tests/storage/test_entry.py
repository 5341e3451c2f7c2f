import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.core import json
from arco.core.errors import ArcoError, Corrupt
from arco.core.hashing import sha256_hex
from arco.core.ids import parse_ulid
from arco.storage.entry import Entry, checksummed, make_entry, read_entry
from tests.clocks import HandClock, hand_runtime


class Apple(msgspec.Struct, tag="apple"):
    size: int


class Pear(msgspec.Struct, tag="pear"):
    size: int


def entry(body: object = "x", parent: Entry | None = None) -> Entry:
    return make_entry(hand_runtime(HandClock()), parent, body)


def changed(**fields: object) -> bytes:
    """A link with other fields, and a checksum that matches them."""
    plain = {**json.decode(entry().raw, dict), **fields}
    del plain["checksum"]
    return checksummed(json.encode(plain))


def test_a_link_names_its_parent_by_number_and_by_the_hash_of_its_bytes() -> None:
    first = entry("a")
    second = entry("b", first)
    assert (first.number, first.record.parent_sha256) == (0, None)
    assert (second.number, second.record.parent_sha256) == (1, sha256_hex(first.raw))
    assert read_entry(second.raw, 1, "here") == second


def test_a_link_carries_an_id_minted_for_exactly_these_bytes() -> None:
    runtime = hand_runtime(HandClock())
    one, two = make_entry(runtime, None, "same"), make_entry(runtime, None, "same")
    assert parse_ulid(one.record.create_id) != parse_ulid(two.record.create_id)
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
        checksummed(b"{}"),
        checksummed(b"garbage"),
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
    with pytest.raises(Corrupt, match="upgrade Arco"):
        read_entry(changed(format=99), 0, "somewhere")


@given(st.binary())
def test_no_bytes_make_a_reader_raise_anything_but_corrupt(raw: bytes) -> None:
    with pytest.raises(Corrupt):
        read_entry(raw, 0, "somewhere")


# A link as a busy chain has them: a parent, letters beyond ASCII, and the name of the checksum in its body.
REAL = entry({"rows": [1, 2, 3], "checksum": "x", "näme": "µ"}, entry("parent")).raw


def assert_corrupt(raw: bytes) -> None:
    with pytest.raises(Corrupt, match="number 1 of here"):
        read_entry(raw, 1, "here")


def test_any_changed_byte_of_a_link_is_found() -> None:
    assert read_entry(REAL, 1, "here").raw == REAL
    for at, byte in enumerate(REAL):
        # every single bit, upper and lower case among them, and all at once
        for flip in (1, 2, 4, 8, 16, 32, 64, 128, 255):
            assert_corrupt(REAL[:at] + bytes([byte ^ flip]) + REAL[at + 1 :])


def test_any_byte_that_was_lost_or_added_is_found() -> None:
    for at in range(len(REAL)):
        assert_corrupt(REAL[:at])
        assert_corrupt(REAL[at + 1 :])
        assert_corrupt(REAL[:at] + REAL[at + 1 :])
        for byte in (b" ", b"\n", b"0", b'"', b"}", b"\0", REAL[at : at + 1]):
            assert_corrupt(REAL[:at] + byte + REAL[at:])
            assert_corrupt(REAL + byte)


@given(st.binary(max_size=200), st.integers(0, len(REAL)), st.integers(0, len(REAL)))
def test_any_stretch_that_was_overwritten_is_found(other: bytes, start: int, end: int) -> None:
    raw = REAL[:start] + other + REAL[max(start, end) :]
    if raw != REAL:
        assert_corrupt(raw)


def test_a_link_without_a_checksum_or_with_one_that_is_not_last_is_corrupt() -> None:
    plain = json.decode(REAL, dict)
    mark = {"checksum": plain.pop("checksum")}
    assert_corrupt(json.encode(plain))
    assert_corrupt(json.encode({**mark, **plain}))
    assert_corrupt(json.encode({**plain, "checksum": mark["checksum"].upper()}))


def test_a_checksum_can_be_checked_with_standard_tools() -> None:
    content, _, rest = REAL.rpartition(b',"checksum":"')
    assert rest == sha256_hex(content).encode() + b'"}'
    assert json.decode(REAL, dict)["checksum"] == sha256_hex(content)


def test_the_hash_of_an_entry_is_taken_once() -> None:
    one = entry()
    assert one.sha256() is one.sha256()
    assert one.sha256() == sha256_hex(one.raw)
    assert one == read_entry(one.raw, 0, "here"), "the cached hash does not distinguish two entries"


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
