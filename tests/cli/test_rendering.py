import json
from collections.abc import Iterator

import pytest

from arco.cli.rendering import one_line, print_items, print_rows
from arco.core.errors import Unavailable


def test_every_row_is_aligned_and_nothing_is_cut_off(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(("NAME", "X"), [("a", "1"), ("数据", "2"), ("w" * 300, "3")])

    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines] == ["X", "1", "2", "3"]
    assert lines[3] == "w" * 300 + "  3"
    assert lines[1].index("1") == lines[3].index("3")
    assert lines[2].index("2") == lines[1].index("1") - 2  # two letters that are two cells wide


def test_a_pipe_gets_lines_while_rows_are_still_to_come(
    capsys: pytest.CaptureFixture[str],
) -> None:
    seen = []

    def rows() -> Iterator[tuple[str, ...]]:
        yield from ((f"row {number}",) for number in range(1_001))
        seen.append(capsys.readouterr().out)
        yield ("x" * 200,)

    print_rows(("NAME",), rows())

    assert seen[0].splitlines()[-1] == "row 1000"
    assert capsys.readouterr().out == "x" * 200 + "\n"


def test_nothing_in_a_list_speaks_to_the_terminal() -> None:
    assert one_line("a\x1b[31m\nb\tc\u202e") == "a\\x1b[31m\\nb\\tc\\u202e"


def test_many_rows_on_a_terminal_come_with_a_bar(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")

    print_rows(("NAME",), [("few",)])
    few = capsys.readouterr()
    print_rows(("NAME",), [*((f"row {number}",) for number in range(1_000)), ("last",)])
    many = capsys.readouterr()

    assert "━" not in few.err
    assert "1 line" in few.out
    assert "1001 read" in many.err
    assert "last" in many.out
    assert "1001 lines" in many.out


@pytest.mark.parametrize("items", [[], [1], [1, 2, 3]])
def test_a_list_for_programs_is_one_document_with_an_item_to_a_line(
    items: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    print_items(b"%d" % item for item in items)

    printed = capsys.readouterr().out
    assert json.loads(printed) == {"items": items}
    assert printed.count("\n") == len(items) + 2


def test_a_list_that_cannot_be_had_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    def documents() -> Iterator[bytes]:
        raise Unavailable("gone")
        yield b""

    with pytest.raises(Unavailable):
        print_items(documents())

    assert capsys.readouterr().out == ""


def test_a_list_that_breaks_off_is_no_document(capsys: pytest.CaptureFixture[str]) -> None:
    def documents() -> Iterator[bytes]:
        yield b"1"
        raise Unavailable("gone")

    with pytest.raises(Unavailable):
        print_items(documents())

    with pytest.raises(json.JSONDecodeError):
        json.loads(capsys.readouterr().out)
