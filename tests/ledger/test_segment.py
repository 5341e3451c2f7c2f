import pytest

from arco.core.errors import Corrupt, Invalid
from arco.core.ids import new_ulid
from arco.core.json import encode
from arco.core.runtime import Runtime
from arco.ledger.segment import (
    SegmentLocation,
    decode_event,
    decode_segment,
    encode_seal,
    encode_segment,
    find_location,
    segment_key,
)
from tests.ledger.events import note
from tests.stores import open_bench


def test_a_segment_is_read_as_it_was_written(runtime: Runtime) -> None:
    stream, event = new_ulid(runtime), note(runtime, "zwei\nzeilen")
    raw = encode_segment(runtime, stream, 7, [encode(event), encode(event)])
    segment = decode_segment(raw, stream, 7)
    assert not segment.seal
    assert [decode_event(line) for line in segment.lines] == [event, event]


def test_the_same_lines_written_twice_differ(runtime: Runtime) -> None:
    stream = new_ulid(runtime)
    assert encode_segment(runtime, stream, 0, []) != encode_segment(runtime, stream, 0, [])


def test_a_seal_has_no_lines(runtime: Runtime) -> None:
    stream = new_ulid(runtime)
    segment = decode_segment(encode_seal(runtime, stream, 3), stream, 3)
    assert segment.seal
    assert segment.lines == ()


@pytest.mark.parametrize("raw", [b"", b"\n", b"{}\n", b"\xff\n", b"[" * 100_000 + b"\n", b"null\n"])
def test_garbage_is_corrupt(raw: bytes) -> None:
    with pytest.raises(Corrupt):
        decode_segment(raw, "s", 0)


def test_every_truncation_of_a_segment_that_can_be_noticed_is_corrupt(runtime: Runtime) -> None:
    stream = new_ulid(runtime)
    raw = encode_segment(runtime, stream, 0, [encode(note(runtime))])
    for cut in range(len(raw)):
        if raw[:cut].endswith(b"\n"):
            continue  # a whole number of lines: only a hash shows it, and the manifest has that
        with pytest.raises(Corrupt):
            decode_segment(raw[:cut], stream, 0)


def test_a_segment_under_the_key_of_another_is_corrupt(runtime: Runtime) -> None:
    stream = new_ulid(runtime)
    raw = encode_segment(runtime, stream, 0, [])
    with pytest.raises(Corrupt):
        decode_segment(raw, stream, 1)
    with pytest.raises(Corrupt):
        decode_segment(raw, new_ulid(runtime), 0)


def test_a_newer_format_is_not_guessed_at(runtime: Runtime) -> None:
    stream = new_ulid(runtime)
    raw = encode_segment(runtime, stream, 0, []).replace(b'"format":1', b'"format":2')
    with pytest.raises(Corrupt, match="upgrade Arco"):
        decode_segment(raw, stream, 0)


def test_a_line_that_is_no_event_is_invalid_and_not_corrupt() -> None:
    with pytest.raises(Invalid):
        decode_event(b'{"event_id": 1}')


def test_keys_sort_as_their_numbers() -> None:
    assert segment_key("d", "s", 9) < segment_key("d", "s", 10)


async def test_the_location_of_a_segment_is_read_from_its_first_bytes(runtime: Runtime) -> None:
    store = open_bench("memory://", runtime).store()
    stream = new_ulid(runtime)
    lines = [encode(note(runtime, "x" * 1_000))] * 3
    await store.create(segment_key("d", stream, 0), encode_segment(runtime, stream, 0, lines))
    await store.create(segment_key("d", stream, 1), encode_seal(runtime, stream, 1))
    assert await find_location(store, "d", stream, 0) == SegmentLocation(stream, 0, seal=False)
    assert await find_location(store, "d", stream, 1) == SegmentLocation(stream, 1, seal=True)
    assert await find_location(store, "d", stream, 2) is None


@pytest.mark.parametrize("raw", [b"{}\n", b"x" * 2_000, b"\n", b"null\n"])
async def test_garbage_instead_of_a_segment_is_corrupt(raw: bytes, runtime: Runtime) -> None:
    store = open_bench("memory://", runtime).store()
    stream = new_ulid(runtime)
    await store.create(segment_key("d", stream, 0), raw)
    with pytest.raises(Corrupt):
        await find_location(store, "d", stream, 0)


async def test_a_segment_or_a_seal_with_a_wrong_beginning_has_no_location(runtime: Runtime) -> None:
    store = open_bench("memory://", runtime).store()
    stream, other = new_ulid(runtime), new_ulid(runtime)
    await store.create(segment_key("d", stream, 0), encode_segment(runtime, other, 0, []))
    await store.create(segment_key("d", stream, 1), encode_seal(runtime, stream, 1) + b"more\n")
    await store.create(segment_key("d", stream, 2), encode_seal(runtime, stream, 2)[:-1])
    for seq in range(3):
        with pytest.raises(Corrupt):
            await find_location(store, "d", stream, seq)
