"""Durations as people write them."""

import pytest

from arco.core.duration import parse_duration, print_duration, rough_duration
from arco.core.errors import Invalid


@pytest.mark.parametrize(
    ("text", "ms"),
    [("30s", 30_000), ("10m", 600_000), ("3h", 10_800_000), ("2d", 172_800_000), ("0s", 0)],
)
def test_a_duration_is_a_number_and_a_unit(text: str, ms: int) -> None:
    assert parse_duration(text) == ms


@pytest.mark.parametrize(
    "text", ["", "3", "h", "3 h", "-3h", "1.5h", "3H", "3h\n", "1h30m", "٣h", "3w", "99999999d"]
)
def test_anything_else_is_rejected_with_an_example(text: str) -> None:
    with pytest.raises(Invalid, match=r"such as '3h'"):
        parse_duration(text)


def test_a_number_is_rejected_too() -> None:
    with pytest.raises(Invalid, match="3 is not a duration"):
        parse_duration(3)  # type: ignore[arg-type]


def test_a_duration_is_printed_in_the_largest_unit_that_leaves_no_rest() -> None:
    printed = [print_duration(ms) for ms in (90_000, 120_000, 7_200_000, 172_800_000, 1_500, 0)]
    assert printed == ["90s", "2m", "2h", "2d", "1.5s", "0s"]


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0.0s"),
        (840, "0.8s"),
        (9_949, "9.9s"),
        (9_960, "9.9s"),
        (10_000, "10s"),
        (59_999.5, "59s"),
        (184_000, "3m 4s"),
        (3_600_000, "1h"),
        (3_605_000, "1h"),
        (3_725_000, "1h 2m"),
        (90_000_000, "1d 1h"),
        (86_700_000, "1d"),
    ],
)
def test_a_rough_duration_has_its_two_largest_units(ms: float, text: str) -> None:
    assert rough_duration(ms) == text
