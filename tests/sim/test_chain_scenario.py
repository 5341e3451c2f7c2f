"""The chain keeps its promises under chaos, and its auditor would say if it did not."""

import pytest

from arco.storage.chain import Head
from arco.storage.entry import Entry, make_entry
from arco.storage.hint import FloorBody

from .chain_audit import ChainAudit
from .chain_notes import TICK, EntryBody, Notes, Order, State
from .chain_scenario import ChainScenario
from .clock import Wall
from .faults import NONE
from .objects import SimObjects
from .process import Incarnation
from .report import Report
from .scenario import run_seed
from .world import World

PATH = "c"


class AuditedLog:
    """A log written by hand, and what the auditor makes of it."""

    def __init__(self) -> None:
        world = World(0)
        self.objects = SimObjects(world, NONE)
        self.notes = Notes(collected_in_calm=True, read_at_the_end=True)
        self._runtime = Incarnation(world, "author", 0, Wall(0)).runtime

    def make(self, parent: Entry | None, operation: str) -> Entry:
        return make_entry(self._runtime, parent, EntryBody(operation))

    def append(self, parent: Entry | None, operation: str) -> Entry:
        entry = self.make(parent, operation)
        self.objects.create("p", f"{PATH}/{entry.number:020d}.json", entry.raw)
        return entry

    def raise_floor(self, parent: Entry | None, floor: int) -> Entry:
        entry = make_entry(self._runtime, parent, FloorBody(floor))
        self.objects.create("p", f"{PATH}/floor/{entry.number:020d}.json", entry.raw)
        return entry

    def delete(self, entry: Entry) -> None:
        self.objects.delete("p", f"{PATH}/{entry.number:020d}.json")

    def acknowledge(self, operation: str, entry: Entry) -> None:
        order = Order(operation, base=entry.number - 1)
        order.acknowledge(entry)
        self.notes.orders.append(order)

    def audit(self) -> str:
        return " / ".join(ChainAudit(self.objects, self.notes, PATH).violations())


def test_thirty_seeds_pass_and_a_lot_happens_in_them() -> None:
    report = Report()
    for seed in range(30):
        result = run_seed(ChainScenario, seed)
        assert result.violations == (), f"seed {seed}"
        report.add(result.scenario, result.tally)
    happened = (
        ("requests", 15_000),
        ("acknowledged", 900),
        ("conflicts", 100),
        ("unknowns", 30),
        ("crashes", 20),
        ("suspends", 100),
        ("clock jumps", 20),
        ("numbers collected", 300),
        ("fault: late", 20),
        ("fault: doubled", 20),
        ("fault: phantom", 5),
    )
    for counter, least in happened:
        assert report.total(counter) >= least, counter
    assert "acknowledged" in report.table()


@pytest.mark.parametrize("seed", [0, 3, 11, 10**12])
def test_the_same_seed_gives_the_same_trace(seed: int) -> None:
    first, second = (run_seed(ChainScenario, seed, keep_trace=True) for _ in range(2))
    assert first.trace_hash == second.trace_hash
    assert first.tally == second.tally
    assert first.lines == second.lines != ()


def test_another_seed_gives_another_trace() -> None:
    assert len({run_seed(ChainScenario, seed).trace_hash for seed in range(5)}) == 5


def test_the_auditor_is_content_with_a_sound_chain() -> None:
    log = AuditedLog()
    zero = log.append(None, "a")
    one = log.append(zero, "b")
    log.acknowledge("b", one)
    log.raise_floor(None, 1)
    log.delete(zero)
    assert log.audit() == ""
    log.append(None, "a sleeper's, below the floor and not acknowledged")
    assert log.audit() == ""


def test_the_auditor_sees_an_operation_that_was_applied_twice() -> None:
    log = AuditedLog()
    log.append(log.append(None, "a"), "a")
    assert "a was applied 2 times" in log.audit()


def test_anonymous_operations_may_repeat_but_not_share_a_number() -> None:
    log = AuditedLog()
    one = log.append(log.append(None, TICK), TICK)
    assert log.audit() == ""
    log.acknowledge(TICK, one)
    log.acknowledge(TICK, one)
    assert "number 1 was acknowledged to several" in log.audit()


def test_the_auditor_sees_an_acknowledgement_of_a_dead_number() -> None:
    log = AuditedLog()
    zero = log.append(None, "a")
    log.append(zero, "b")
    log.raise_floor(None, 1)
    log.delete(zero)
    log.acknowledge("c", log.append(None, "c"))
    assert "c was acknowledged as 0, which is another" in log.audit()


def test_the_auditor_sees_a_fork_above_the_floor() -> None:
    log = AuditedLog()
    zero = log.append(None, "a")
    log.delete(zero)
    log.append(None, "b")
    report_text = log.audit()
    assert "number 0 was deleted with the floor at 0" in report_text
    assert "number 0 was created again above the floor" in report_text
    assert "number 0 is gone" in report_text


def test_the_auditor_sees_holes_and_broken_links() -> None:
    log = AuditedLog()
    zero = log.append(None, "a")
    stranger = log.make(None, "not in the chain")
    log.append(stranger, "b")
    assert "number 1 does not follow its parent" in log.audit()
    log = AuditedLog()
    log.append(log.make(zero, "never stored"), "c")
    assert "the chain has a hole" in log.audit()


def test_the_auditor_sees_a_floor_that_falls_or_promises_what_is_not_there() -> None:
    log = AuditedLog()
    log.append(log.append(None, "a"), "b")
    first = log.raise_floor(None, 1)
    log.raise_floor(log.raise_floor(first, 1), 7)
    report_text = log.audit()
    assert "floor 1 says 1 and is not above 1" in report_text
    assert "floor 2 says 7, a number that does not exist" in report_text


def test_the_auditor_sees_readers_that_were_misled() -> None:
    log = AuditedLog()
    zero = log.append(None, "a")
    one = log.append(zero, "b")
    log.notes.saw("up to date", 2, 2, Head(one, 0))
    log.notes.saw("up to date", 1, 2, Head(zero, 0))
    log.notes.saw("behind", 2, 2, Head(zero, 0))
    log.notes.saw("elsewhere", 1, 1, Head(log.make(None, "x"), 0))
    report_text = log.audit()
    assert "up to date saw the head go back to 0" in report_text
    assert "behind was shown 0, it was 1 to 1" in report_text
    assert "elsewhere was shown a dead number 0" in report_text


def test_the_auditor_sees_what_never_became_live_again() -> None:
    log = AuditedLog()
    log.notes = Notes(orders=[Order("a"), Order("b", state=State.UNDECIDED)])
    report_text = log.audit()
    assert "a is still open at the end" in report_text
    assert "b is" not in report_text
    assert "the janitor could not collect" in report_text
    assert "no cold reader found the head" in report_text
