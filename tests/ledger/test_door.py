import pytest

from arco.core.errors import Invalid
from arco.core.runtime import Runtime
from arco.ledger.door import LARGEST_BATCH, admit_array, admit_lines
from tests.ledger.events import LINE, TYPES


def _deep() -> bytes:
    return LINE.replace(b'{"task":"a"}', b"[" * 100_000 + b"]" * 100_000)


def test_bad_lines_are_named_and_their_neighbours_go_on(runtime: Runtime) -> None:
    body = b"\n".join([LINE, b"{oops", b"", LINE, _deep(), LINE.replace(b"task_", b"tusk_"), LINE])
    admission = admit_lines(body, TYPES, runtime)
    assert list(admission.accepted) == [1, 4, 7]
    assert [refusal.line for refusal in admission.refused] == [2, 5, 6]
    assert "deep" in admission.refused[1].reason
    assert "unknown event type" in admission.refused[2].reason


def test_a_line_of_ten_megabytes_is_refused_alone(runtime: Runtime) -> None:
    huge = LINE.replace(b'"a"', b'"' + b"x" * 10_000_000 + b'"')
    admission = admit_lines(LINE + b"\n" + huge + b"\n" + LINE, TYPES, runtime)
    assert list(admission.accepted) == [1, 3]
    assert "at most" in admission.refused[0].reason


def test_windows_line_ends_are_no_trouble(runtime: Runtime) -> None:
    assert list(admit_lines(LINE + b"\r\n" + LINE + b"\r\n", TYPES, runtime).accepted) == [1, 2]


def test_an_array_is_taken_apart_like_lines(runtime: Runtime) -> None:
    admission = admit_array(b"[" + LINE + b', {"x": 1}, 7, ' + LINE + b"]", TYPES, runtime)
    assert list(admission.accepted) == [1, 4]
    assert [refusal.line for refusal in admission.refused] == [2, 3]


@pytest.mark.parametrize("body", [b"{}", b"[1", b"nope", b"\xff", b"[" * 100_000, b""])
def test_a_body_that_is_no_array_is_refused_as_a_whole(body: bytes, runtime: Runtime) -> None:
    with pytest.raises(Invalid):
        admit_array(body, TYPES, runtime)


def test_a_batch_has_an_upper_size(runtime: Runtime) -> None:
    with pytest.raises(Invalid, match="at most"):
        admit_lines(b"\n".join([b"x"] * (LARGEST_BATCH + 1)), TYPES, runtime)
