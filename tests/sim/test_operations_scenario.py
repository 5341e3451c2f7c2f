"""Tier 2 keeps its promises under chaos: every event that was acknowledged is published, once."""

from .operations_scenario import OperationsScenario
from .report import Report
from .scenario import run_seed

# What has to happen in a few seeds, so that they prove something.
_HAPPENED = {
    "acknowledged": 200,
    "events folded": 200,
    "events late": 20,
    "events quarantined": 10,
    "manifests: fold": 60,
    "manifests: merge": 10,
    "manifests: rebuild": 4,
    "manifests: mark": 6,
    "rows forgotten": 5,
    "files collected": 100,
    "segments collected": 40,
    "slots collected": 10,
    "crashes": 3,
    "suspends": 30,
}


def test_some_seeds_pass_and_a_lot_happens_in_them() -> None:
    report = Report()
    for seed in (2, 5, 9, 11):
        result = run_seed(OperationsScenario, seed)
        assert result.violations == (), f"seed {seed}"
        report.add(result.scenario, result.tally)
    for counter, least in _HAPPENED.items():
        assert report.total(counter) >= least, counter
