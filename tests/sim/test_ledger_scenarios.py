"""The ledger keeps its promises under chaos: streams with seals, and idempotency keys."""

import pytest

from .claim_scenario import ClaimScenario
from .registry import SCENARIOS
from .report import Report
from .scenario import Scenario, run_seed
from .stream_scenario import StreamScenario

STREAMS = {
    "acknowledged": 800,
    "manifests": 300,
    "segments collected": 200,
    "seals": 15,
    "conflicts": 50,
    "crashes": 10,
    "suspends": 30,
    "fault: late": 10,
}
CLAIMS = {
    "answered 200": 300,
    "answered 409": 50,
    "answered 503": 50,
    "keys reused": 50,
    "keys collected": 100,
    "crashes": 10,
    "suspends": 15,
    "fault: late": 10,
}


@pytest.mark.sim
@pytest.mark.parametrize(
    ("scenario", "happened"), [(StreamScenario, STREAMS), (ClaimScenario, CLAIMS)]
)
def test_twenty_seeds_pass_and_a_lot_happens_in_them(
    scenario: type[Scenario], happened: dict[str, int]
) -> None:
    report = Report()
    for seed in range(20):
        result = run_seed(scenario, seed)
        assert result.violations == (), f"seed {seed}"
        report.add(result.scenario, result.tally)
    for counter, least in happened.items():
        assert report.total(counter) >= least, counter


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_few_seeds_pass_and_the_same_seed_gives_the_same_trace(name: str) -> None:
    """A sample of every scenario; `make sim` runs a thousand seeds, and twenty of them twice."""
    for seed in (1, 7):
        first, second = (run_seed(SCENARIOS[name], seed, keep_trace=True) for _ in range(2))
        assert first.violations == (), f"seed {seed}"
        assert first.trace_hash == second.trace_hash
        assert first.lines == second.lines != ()


def test_a_compactor_that_slept_reads_its_watermark_again() -> None:
    """Another had published, and the slots it had yet to read were collected."""
    assert run_seed(StreamScenario, 867).violations == ()


def test_a_request_that_slept_until_its_key_expired_does_not_start_again() -> None:
    """A server read an empty key, slept until the key was used and collected, and claimed it again."""
    for seed in (5078, 5099):
        assert run_seed(ClaimScenario, seed).violations == ()


def test_a_request_that_meets_its_key_while_it_is_collected_is_refused_and_not_lost() -> None:
    """Number 0 went between two reads, and `Not found` left the room as if it were a verdict."""
    for seed in (3993, 4170):
        assert run_seed(ClaimScenario, seed).violations == ()
