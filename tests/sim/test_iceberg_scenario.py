"""Tables keep what was acknowledged, whatever befalls those who serve them (figures 1, 4, 5 and 6)."""

import pytest

from .faults import NONE
from .iceberg_answers import locations
from .iceberg_audit import IcebergAudit
from .iceberg_crash import prepare
from .iceberg_notes import IcebergNotes, Intent, Outcome, Reply
from .iceberg_operations import Append, Facts, Mark
from .iceberg_scenario import IcebergScenario
from .objects import SimObjects
from .report import Report
from .scenario import run_seed
from .world import World

HAPPENED = {
    "done": 150,
    "refused": 100,
    "unavailable": 60,
    "unknown": 2,
    "versions": 80,
    "transactions committed": 3,
    "aborted": 8,
    "append done": 15,
    "both done": 8,
    "create done": 30,
    "drop done": 10,
    "rename done": 2,
    "crashes": 20,
    "suspends": 30,
    "fault: late": 40,
    "numbers collected": 4,
}

EMPTY = Facts("u", "s3://sim/x", {}, (), None, 0)


@pytest.mark.sim
@pytest.mark.parametrize("part", range(2))
def test_ten_seeds_pass_and_a_lot_happens_in_them(part: int) -> None:
    report = Report()
    for seed in range(10 * part, 10 * part + 10):
        result = run_seed(IcebergScenario, seed)
        assert result.violations == (), f"seed {seed}"
        report.add(result.scenario, result.tally)
    for counter, least in HAPPENED.items():
        assert report.total(counter) >= least, counter


def test_a_mark_is_one_property_and_nothing_else() -> None:
    mark = Mark("t", "m.1")
    after = Facts("u", "s3://sim/x", {"m.1": "1"}, (), None, 0)
    assert mark.fits(EMPTY, after)
    assert not mark.fits(EMPTY, EMPTY)
    assert not mark.fits(EMPTY, Facts("u", "s3://sim/x", {"m.1": "1", "b": "2"}, (), None, 0))


def test_an_append_follows_only_what_was_seen() -> None:
    append = Append("t", EMPTY, 7)
    after = Facts("u", "s3://sim/x", {}, (7,), 7, 1)
    assert append.fits(EMPTY, after)
    assert not append.fits(after, Facts("u", "s3://sim/x", {}, (7, 7), 7, 2))
    assert append.is_refused(after)


def _audited(outcome: Outcome, *, code: str = "") -> list[str]:
    """The judgement of a commit that was never carried out, and of the answer to its user."""
    prepared = prepare()
    objects = SimObjects(World(0), NONE)
    objects.restore(prepared.objects)
    notes = IcebergNotes(intents=list(prepared.intents), finished=True)
    end = len(objects.log)
    intent = Intent("w", Mark("t1", "m.w"), keyed=False, sent=end)
    intent.replies.append(Reply(outcome, end, end, 0.0, 0.0, code=code))
    notes.intents.append(intent)
    return IcebergAudit(objects, notes).violations()


def test_the_auditor_accepts_an_unknown_outcome_without_effect() -> None:
    assert _audited(Outcome.UNKNOWN) == []


def test_the_auditor_misses_a_commit_that_was_acknowledged() -> None:
    [wrong] = _audited(Outcome.DONE)
    assert "acknowledged, and nothing has happened" in wrong


def test_the_auditor_misses_the_reason_of_a_refusal() -> None:
    [wrong] = _audited(Outcome.REFUSED, code="404 NoSuchTableException")
    assert "at no time rightly" in wrong


def test_the_auditor_notices_a_version_without_a_request() -> None:
    prepared = prepare()
    notes = IcebergNotes(intents=prepared.intents[1:], finished=True)
    wrong = IcebergAudit(prepared.objects, notes).violations()
    assert any("no user asked for" in each for each in wrong)


def test_a_request_that_met_a_rename_may_meet_what_came_after_it() -> None:
    before, renamed, later = {"t": ("id", "v1")}, {"u": ("id", "v1")}, {"u": ("id", "v2")}
    assert locations([before, renamed, later], "t") == {"v1", "v2"}  # P32: by name, then by id
    assert locations([renamed, later], "t") == set()
    assert locations([later, before], "t") == {"v1"}
    assert locations([before, {"t": ("other", "v3"), "u": ("id", "v2")}], "t") == {"v1", "v2", "v3"}
