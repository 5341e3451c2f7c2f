"""Tier 2 keeps its promises under chaos: every event that was acknowledged is published, once."""

from .operations_scenario import OperationsScenario
from .report import Report
from .scenario import run_seed

# What has to happen in a few seeds, so that they prove something.
_HAPPENED = {
    "acknowledged": 200,
    "events folded": 200,
    "events late": 5,
    "events quarantined": 5,
    "manifests: fold": 50,
    "manifests: merge": 10,
    "manifests: rebuild": 1,
    "manifests: mark": 3,
    "files collected": 50,
    "segments collected": 20,
    "slots collected": 5,
    "crashes": 5,
    "suspends": 20,
}


def test_some_seeds_pass_and_a_lot_happens_in_them() -> None:
    report = Report()
    for seed in range(4):
        result = run_seed(OperationsScenario, seed)
        assert result.violations == (), f"seed {seed}"
        report.add(result.scenario, result.tally)
    for counter, least in _HAPPENED.items():
        assert report.total(counter) >= least, counter
