"""What attempts say: kept until it was heard, in its order, and bounded."""

import os

from arco.flow.coordinator.messages import Progress
from arco.flow.worker.reporter import MAX_CHUNK_CHARS, MAX_PENDING_CHARS, AttemptLog, LogChunk

NO_UTF8 = os.fsdecode(b"caf\xe9.csv")  # a file's name, as the system gives it


def _sent(log: AttemptLog, most_chars: int = MAX_CHUNK_CHARS) -> LogChunk:
    part = log.take(most_chars)
    log.acknowledge(part)
    return part


def test_lines_are_taken_once_and_in_their_order() -> None:
    log = AttemptLog()
    for line in ("one", "two\n", "three"):
        log.log(line)
    assert (_sent(log), _sent(log)) == (LogChunk(0, "one\ntwo\nthree\n"), LogChunk())


def test_a_part_that_was_not_heard_is_sent_again_as_it_was() -> None:
    log = AttemptLog()
    log.log("one")
    first = log.take()
    log.log("two")
    assert _sent(log) == first == LogChunk(0, "one\n")
    log.acknowledge(first)  # somebody else had sent it too
    assert _sent(log) == LogChunk(1, "two\n")


def test_much_is_sent_in_parts() -> None:
    log = AttemptLog()
    for number in range(10):
        log.log(f"{number}" * 9)
    parts = [_sent(log, most_chars=25) for _ in range(5)]
    assert [part.text.count("\n") for part in parts] == [3, 3, 3, 1, 0]
    assert [part.number for part in parts] == [0, 1, 2, 3, None]


def test_of_too_much_at_once_the_rest_is_counted() -> None:
    log = AttemptLog()
    line = "x" * 999
    fitting = MAX_PENDING_CHARS // 1_000
    for _ in range(fitting + 7):
        log.log(line)
    taken = _sent(log, most_chars=2 * MAX_PENDING_CHARS).text
    assert taken.count("\n") == fitting + 1
    assert taken.endswith("... 7 lines were left out: too many at once\n")
    log.log("there is room again")
    assert _sent(log).text == "there is room again\n"


def test_a_part_that_nobody_takes_leaves_a_line_in_its_place() -> None:
    log = AttemptLog()
    log.log("x" * 99)
    log.progress(Progress(phase="writing"))
    log.reject(log.take(), "it is too odd")
    log.log("next")
    assert _sent(log) == LogChunk(0, "... 100 characters were left out: it is too odd\n")
    assert (_sent(log), log.latest) == (LogChunk(1, "next\n"), Progress())


def test_what_utf8_cannot_carry_is_spelled_out() -> None:
    log = AttemptLog()
    log.log(f"reading {NO_UTF8}")
    log.progress(Progress(message=NO_UTF8))
    assert log.take().text == "reading caf\\udce9.csv\n"
    assert log.latest.message == "caf\\udce9.csv"
