"""What attempts say: kept until it was heard, in its order, and bounded."""

import os

from arco.flow.run.wire import Progress
from arco.flow.work import said
from arco.flow.work.said import Part, Said

NO_UTF8 = os.fsdecode(b"caf\xe9.csv")  # a file's name, as the system gives it


def _sent(speaks: Said, most_chars: int = said.MOST_SENT_CHARS) -> Part:
    part = speaks.take(most_chars)
    speaks.heard(part)
    return part


def test_lines_are_taken_once_and_in_their_order() -> None:
    speaks = Said()
    for line in ("one", "two\n", "three"):
        speaks.log(line)
    assert (_sent(speaks), _sent(speaks)) == (Part(0, "one\ntwo\nthree\n"), Part())


def test_a_part_that_was_not_heard_is_sent_again_as_it_was() -> None:
    speaks = Said()
    speaks.log("one")
    first = speaks.take()
    speaks.log("two")
    assert _sent(speaks) == first == Part(0, "one\n")
    speaks.heard(first)  # somebody else had sent it too
    assert _sent(speaks) == Part(1, "two\n")


def test_much_is_sent_in_parts() -> None:
    speaks = Said()
    for number in range(10):
        speaks.log(f"{number}" * 9)
    parts = [_sent(speaks, most_chars=25) for _ in range(5)]
    assert [part.text.count("\n") for part in parts] == [3, 3, 3, 1, 0]
    assert [part.number for part in parts] == [0, 1, 2, 3, None]


def test_of_too_much_at_once_the_rest_is_counted() -> None:
    speaks = Said()
    line = "x" * 999
    fitting = said.MOST_PENDING_CHARS // 1_000
    for _ in range(fitting + 7):
        speaks.log(line)
    taken = _sent(speaks, most_chars=2 * said.MOST_PENDING_CHARS).text
    assert taken.count("\n") == fitting + 1
    assert taken.endswith("... 7 lines were left out: too many at once\n")
    speaks.log("there is room again")
    assert _sent(speaks).text == "there is room again\n"


def test_a_part_that_nobody_takes_leaves_a_line_in_its_place() -> None:
    speaks = Said()
    speaks.log("x" * 99)
    speaks.progress(Progress(phase="writing"))
    speaks.refused(speaks.take(), "it is too odd")
    speaks.log("next")
    assert _sent(speaks) == Part(0, "... 100 characters were left out: it is too odd\n")
    assert (_sent(speaks), speaks.latest) == (Part(1, "next\n"), Progress())


def test_what_utf8_cannot_carry_is_spelled_out() -> None:
    speaks = Said()
    speaks.log(f"reading {NO_UTF8}")
    speaks.progress(Progress(message=NO_UTF8))
    assert speaks.take().text == "reading caf\\udce9.csv\n"
    assert speaks.latest.message == "caf\\udce9.csv"
