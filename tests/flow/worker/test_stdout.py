"""What the code of a task prints goes to its own attempt."""

import sys
from contextvars import copy_context
from threading import Thread

import pytest

from arco.flow.worker.stdout import capture_stdout, log_prints, process_stdout

Capsys = pytest.CaptureFixture[str]


def _in_thread(*lines: str) -> None:
    thread = Thread(target=lambda: print(*lines))
    thread.start()
    thread.join()


def test_what_a_task_prints_is_logged_line_by_line_and_not_printed(capsys: Capsys) -> None:
    kept: list[str] = []
    before = sys.stdout
    with capture_stdout():
        print("before")
        with log_prints(kept.append):
            print("one\ntwo")
            print("th", end="", flush=True)
            print("ree")
            sys.stdout.writelines(["four\n", "five"])
            assert not sys.stdout.isatty()
        print("after")
    assert kept == ["one", "two", "three", "four", "five"]
    assert capsys.readouterr().out == "before\nafter\n"
    assert sys.stdout is before


def test_two_tasks_at_once_do_not_mix_their_lines(capsys: Capsys) -> None:
    mine: list[str] = []
    theirs: list[str] = []

    def other() -> None:
        with log_prints(theirs.append):
            print("their", "line")

    with capture_stdout(), log_prints(mine.append):
        print("my ", end="")
        thread = Thread(target=other)
        thread.start()
        thread.join()
        print("line")
    assert (mine, theirs, capsys.readouterr().out) == (["my line"], ["their line"], "")


def test_a_thread_with_the_context_of_a_task_prints_to_its_log(capsys: Capsys) -> None:
    kept: list[str] = []
    with capture_stdout(), log_prints(kept.append):
        thread = Thread(target=copy_context().run, args=(print, "from afar"))
        thread.start()
        thread.join()
    assert (kept, capsys.readouterr().out) == (["from afar"], "")


def test_a_thread_without_an_attempt_prints_to_stderr(capsys: Capsys) -> None:
    with capture_stdout():
        _in_thread("whose?")
        print("ours", file=process_stdout())
    assert capsys.readouterr() == ("ours\n", "whose?\n")


def test_a_line_without_an_end_is_split(capsys: Capsys) -> None:
    kept: list[str] = []
    with capture_stdout(), log_prints(kept.append):
        for _ in range(3):
            print("." * 6_000, end="")
        assert [len(each) for each in kept] == [12_000]
    assert [len(each) for each in kept] == [12_000, 6_000]
    assert capsys.readouterr().out == ""


def test_other_attributes_of_stdout_are_unchanged() -> None:
    before = sys.stdout
    with capture_stdout():
        assert sys.stdout is not before
        assert sys.stdout.encoding == before.encoding
        assert sys.stdout.buffer is before.buffer
