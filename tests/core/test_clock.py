import time

from hypothesis import given
from hypothesis import strategies as st

from arco.core.clock import SystemClock, utc


def test_elapsed_time_counts_the_time_that_the_machine_sleeps() -> None:
    boot = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    expected_ms = time.clock_gettime(boot) * 1000
    assert abs(SystemClock().elapsed_ms() - expected_ms) < 1_000


@given(st.integers(0, 4_102_444_800_000))
def test_a_moment_keeps_its_millisecond(ms: int) -> None:
    assert round(utc(ms).timestamp() * 1000) == ms
    assert utc(ms).microsecond == ms % 1000 * 1000
    assert utc(ms) < utc(ms + 1)
