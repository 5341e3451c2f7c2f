"""Tier 2 keeps its promises under chaos: every event that was acknowledged is published, once."""

from .operations_scenario import OperationsScenario
from .report import Report
from .scenario import run_seed

# What has to happen in a few seeds, so that they prove something.
_HAPPENED = {
    "acknowledged": 300,
    "events folded": 300,
    "events late": 5,
    "events quarantined": 5,
    "manifests: fold": 80,
    "manifests: merge": 20,
    "manifests: rebuild": 3,
    "manifests: mark": 5,
    "files collected": 100,
    "segments collected": 30,
    "slots collected": 5,
    "crashes": 5,
    "suspends": 20,
}


def test_some_seeds_pass_and_a_lot_happens_in_them() -> None:
    report = Report()
    for seed in range(6):
        result = run_seed(OperationsScenario, seed)
        assert result.violations == (), f"seed {seed}"
        report.add(result.scenario, result.tally)
    for counter, least in _HAPPENED.items():
        assert report.total(counter) >= least, counter
