import pytest

from arco.core.errors import Invalid
from arco.core.runtime import Runtime
from arco.ledger.door import LARGEST_BATCH, Admission, admit_all, split_array, split_lines
from arco.ledger.envelope import new_stamp
from tests.ledger.events import LINE, TYPES


def _deep() -> bytes:
    return LINE.replace(b'{"task":"a"}', b"[" * 100_000 + b"]" * 100_000)


async def _admitted(lines: list[bytes], runtime: Runtime) -> Admission:
    return await admit_all(lines, TYPES, new_stamp(runtime), runtime)


async def test_bad_lines_are_named_and_their_neighbours_go_on(runtime: Runtime) -> None:
    body = b"\n".join([LINE, b"{oops", b"", LINE, _deep(), LINE.replace(b"task_", b"tusk_"), LINE])
    admission = await _admitted(split_lines(body), runtime)
    assert list(admission.accepted) == [1, 4, 7]
    assert [refusal.line for refusal in admission.refused] == [2, 5, 6]
    assert "deep" in admission.refused[1].reason
    assert "unknown event type" in admission.refused[2].reason


async def test_a_line_of_ten_megabytes_is_refused_alone(runtime: Runtime) -> None:
    huge = LINE.replace(b'"a"', b'"' + b"x" * 10_000_000 + b'"')
    admission = await _admitted(split_lines(LINE + b"\n" + huge + b"\n" + LINE), runtime)
    assert list(admission.accepted) == [1, 3]
    assert "at most" in admission.refused[0].reason


async def test_a_reason_is_short_whatever_was_sent(runtime: Runtime) -> None:
    line = LINE[:-1] + b',"' + b"x" * 100_000 + b'":1}'
    admission = await _admitted([line], runtime)
    assert len(admission.refused[0].reason) <= 300


async def test_windows_line_ends_are_no_trouble(runtime: Runtime) -> None:
    lines = split_lines(LINE + b"\r\n" + LINE + b"\r\n")
    assert list((await _admitted(lines, runtime)).accepted) == [1, 2]


async def test_an_array_is_taken_apart_like_lines(runtime: Runtime) -> None:
    lines = split_array(b"[" + LINE + b', {"x": 1}, 7, ' + LINE + b"]")
    admission = await _admitted(lines, runtime)
    assert list(admission.accepted) == [1, 4]
    assert [refusal.line for refusal in admission.refused] == [2, 3]


async def test_a_large_batch_is_admitted_whole_with_an_id_for_each_event(runtime: Runtime) -> None:
    lines = [LINE, b"", *[LINE] * (LARGEST_BATCH - 1)]
    admission = await _admitted(lines, runtime)
    assert len(admission.accepted) == LARGEST_BATCH
    assert max(admission.accepted) == LARGEST_BATCH + 1
    ids = [each.event.event_id for each in admission.accepted.values()]
    assert ids == sorted(set(ids))


@pytest.mark.parametrize("body", [b"{}", b"[1", b"nope", b"\xff", b"[" * 100_000, b""])
def test_a_body_that_is_no_array_is_refused_as_a_whole(body: bytes) -> None:
    with pytest.raises(Invalid):
        split_array(body)


def test_a_batch_has_an_upper_size() -> None:
    with pytest.raises(Invalid, match="at most"):
        split_lines(b"\n".join([b"x"] * (LARGEST_BATCH + 1)))
    with pytest.raises(Invalid, match="at most"):
        split_array(b"[" + b",".join([b"1"] * (LARGEST_BATCH + 1)) + b"]")
    assert len(split_lines(b"\n" * 3 * LARGEST_BATCH)) > LARGEST_BATCH
