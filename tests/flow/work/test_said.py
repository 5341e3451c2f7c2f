"""What attempts say: kept until it was sent, in its order, and bounded."""

from arco.flow.work import said
from arco.flow.work.said import Said


def test_lines_are_taken_once_and_in_their_order() -> None:
    speaks = Said()
    for line in ("one", "two\n", "three"):
        speaks.log(line)
    assert (speaks.take(), speaks.take()) == ("one\ntwo\nthree\n", "")


def test_lines_that_could_not_be_sent_come_first_the_next_time() -> None:
    speaks = Said()
    speaks.log("one")
    lost = speaks.take()
    speaks.log("two")
    speaks.give_back(lost)
    assert speaks.take() == "one\ntwo\n"


def test_much_is_sent_in_parts() -> None:
    speaks = Said()
    for number in range(10):
        speaks.log(f"{number}" * 9)
    parts = [speaks.take(most_chars=25) for _ in range(5)]
    assert [part.count("\n") for part in parts] == [3, 3, 3, 1, 0]


def test_of_too_much_at_once_the_rest_is_counted() -> None:
    speaks = Said()
    line = "x" * 999
    fitting = said.MOST_PENDING_CHARS // 1_000
    for _ in range(fitting + 7):
        speaks.log(line)
    taken = speaks.take(most_chars=2 * said.MOST_PENDING_CHARS)
    assert taken.count("\n") == fitting + 1
    assert taken.endswith("... 7 lines were left out: too many at once\n")
    speaks.log("there is room again")
    assert speaks.take() == "there is room again\n"
