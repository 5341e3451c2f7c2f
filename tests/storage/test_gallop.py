from math import log2

from hypothesis import given
from hypothesis import strategies as st

from arco.storage.chain import last_present


class Run:
    """Numbers 0 to `last` are there, and every probe is counted."""

    def __init__(self, last: int) -> None:
        self.last = last
        self.probes: list[int] = []

    async def probe(self, number: int) -> str | None:
        self.probes.append(number)
        return str(number) if number <= self.last else None


async def gallop(run: Run, base: int) -> tuple[int, str | None]:
    best = str(base) if base >= 0 else None
    return await last_present(run.probe, base, best)


def drive(run: Run, base: int) -> tuple[int, str | None]:
    """Without an event loop: nothing in a gallop waits for anything but its probes."""
    try:
        gallop(run, base).send(None)
    except StopIteration as ended:
        found: tuple[int, str | None] = ended.value
        return found
    raise AssertionError


@given(st.integers(-1, 5_000), st.integers(0, 5_000))
def test_the_last_number_is_found_from_any_number_below(base: int, gap: int) -> None:
    run = Run(base + gap)
    number, found = drive(run, base)
    assert number == base + gap
    assert found == (str(number) if number >= 0 else None)


@given(st.integers(-1, 10**15), st.integers(0, 10**15))
def test_it_takes_twice_the_logarithm_of_the_gap(base: int, gap: int) -> None:
    run = Run(base + gap)
    drive(run, base)
    assert len(run.probes) <= (2 * log2(gap) + 2 if gap else 1)
    assert min(run.probes) > base


@given(st.integers(0, 10**6), st.integers(1, 10**6))
def test_what_was_already_seen_is_not_asked_for_again(base: int, gap: int) -> None:
    run = Run(base + gap)
    pending = last_present(run.probe, base, str(base + 1), best_offset=1, step=2)
    try:
        pending.send(None)
    except StopIteration as ended:
        assert ended.value == (base + gap, str(base + gap))
    assert min(run.probes) > base + 1
    assert len(run.probes) == len(set(run.probes))


def test_an_empty_run_ends_below_its_first_number() -> None:
    assert drive(Run(-1), -1) == (-1, None)
