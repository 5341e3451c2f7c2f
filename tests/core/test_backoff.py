"""Exponential back-off: pauses double up to a limit, spread by jitter, on the injected clock and rng."""

from random import Random

import pytest

from arco.core.backoff import ExponentialBackoff


class _FixedRng(Random):
    def random(self) -> float:
        return 0.5


@pytest.mark.parametrize(
    ("failures", "pause_ms"),
    [(1, 125), (2, 250), (3, 500), (4, 1_000), (5, 1_250), (10_000, 1_250)],
)
def test_pauses_double_up_to_the_limit(failures: int, pause_ms: float) -> None:
    backoff = ExponentialBackoff(100, 1_000, jitter=0.5)
    assert backoff.pause_ms(failures, _FixedRng()) == pause_ms


def test_a_pause_is_longer_by_at_most_the_jitter() -> None:
    backoff, rng = ExponentialBackoff(100, 1_000, jitter=0.25), Random(1)
    pauses = [backoff.pause_ms(1, rng) for _ in range(1_000)]
    assert 100 <= min(pauses) < 101
    assert 124 < max(pauses) <= 125


def test_a_pause_that_the_server_asked_for_has_the_same_limit() -> None:
    assert ExponentialBackoff(100, 1_000, jitter=0).spread_ms(5_000, Random(1)) == 1_000
