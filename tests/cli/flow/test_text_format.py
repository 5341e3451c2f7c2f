from arco.cli.flow.text_format import count_of, first_line, format_duration, format_time, shorten


def test_an_unknown_time_is_not_reported() -> None:
    assert (format_duration(840), format_duration(None)) == ("0.8s", "")


def test_one_is_not_many() -> None:
    assert (count_of(1, "task"), count_of(0, "task"), count_of(1_200, "task")) == (
        "1 task",
        "0 tasks",
        "1,200 tasks",
    )


def test_the_first_line_is_one_that_says_something() -> None:
    assert first_line("\n  \n  oh no\nmore") == "oh no"
    assert first_line(None) == ""


def test_a_moment_is_printed_in_utc_to_the_second() -> None:
    assert format_time(1_767_225_600_999) == "2026-01-01T00:00:00Z"


def test_a_text_that_is_too_long_is_cut() -> None:
    assert shorten("abcdef", 4) == "abc…"
    assert shorten("abcd", 4) == "abcd"
