"""The chain keeps its promises under chaos, and its auditor would say if it did not."""

import pytest

from arco.storage.chain import Head
from arco.storage.entry import Entry, make_entry
from arco.storage.hint import FloorBody

from .chain_audit import ChainAudit
from .chain_notes import TICK, Deed, Notes, Order, State
from .chain_scenario import ChainScenario
from .clock import Wall
from .faults import NONE
from .objects import SimObjects
from .process import Life
from .report import Report
from .scenario import run_seed
from .world import World

PATH = "c"


class Story:
    """A log written by hand, and what the auditor makes of it."""

    def __init__(self) -> None:
        world = World(0)
        self.objects = SimObjects(world, NONE)
        self.notes = Notes(collected_in_calm=True, read_at_the_end=True)
        self._runtime = Life(world, "author", 0, Wall(0)).runtime

    def make(self, parent: Entry | None, operation: str) -> Entry:
        return make_entry(self._runtime, parent, Deed(operation))

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
    story = Story()
    zero = story.append(None, "a")
    one = story.append(zero, "b")
    story.acknowledge("b", one)
    story.raise_floor(None, 1)
    story.delete(zero)
    assert story.audit() == ""
    story.append(None, "a sleeper's, below the floor and not acknowledged")
    assert story.audit() == ""


def test_the_auditor_sees_an_operation_that_was_applied_twice() -> None:
    story = Story()
    story.append(story.append(None, "a"), "a")
    assert "a was applied 2 times" in story.audit()


def test_anonymous_operations_may_repeat_but_not_share_a_number() -> None:
    story = Story()
    one = story.append(story.append(None, TICK), TICK)
    assert story.audit() == ""
    story.acknowledge(TICK, one)
    story.acknowledge(TICK, one)
    assert "number 1 was acknowledged to several" in story.audit()


def test_the_auditor_sees_an_acknowledgement_of_a_dead_number() -> None:
    story = Story()
    zero = story.append(None, "a")
    story.append(zero, "b")
    story.raise_floor(None, 1)
    story.delete(zero)
    story.acknowledge("c", story.append(None, "c"))
    assert "c was acknowledged as 0, which is another" in story.audit()


def test_the_auditor_sees_a_fork_above_the_floor() -> None:
    story = Story()
    zero = story.append(None, "a")
    story.delete(zero)
    story.append(None, "b")
    said = story.audit()
    assert "number 0 was deleted with the floor at 0" in said
    assert "number 0 was made anew above the floor" in said
    assert "number 0 is gone" in said


def test_the_auditor_sees_holes_and_broken_links() -> None:
    story = Story()
    zero = story.append(None, "a")
    stranger = story.make(None, "not in the chain")
    story.append(stranger, "b")
    assert "number 1 does not follow its parent" in story.audit()
    story = Story()
    story.append(story.make(zero, "never stored"), "c")
    assert "the chain has a hole" in story.audit()


def test_the_auditor_sees_a_floor_that_falls_or_promises_what_is_not_there() -> None:
    story = Story()
    story.append(story.append(None, "a"), "b")
    first = story.raise_floor(None, 1)
    story.raise_floor(story.raise_floor(first, 1), 7)
    said = story.audit()
    assert "floor 1 says 1 and is not above 1" in said
    assert "floor 2 says 7, a number that does not exist" in said


def test_the_auditor_sees_readers_that_were_misled() -> None:
    story = Story()
    zero = story.append(None, "a")
    one = story.append(zero, "b")
    story.notes.saw("up to date", 2, 2, Head(one, 0))
    story.notes.saw("up to date", 1, 2, Head(zero, 0))
    story.notes.saw("behind", 2, 2, Head(zero, 0))
    story.notes.saw("elsewhere", 1, 1, Head(story.make(None, "x"), 0))
    said = story.audit()
    assert "up to date saw the head go back to 0" in said
    assert "behind was shown 0, it was 1 to 1" in said
    assert "elsewhere was shown a dead number 0" in said


def test_the_auditor_sees_what_never_became_live_again() -> None:
    story = Story()
    story.notes = Notes(orders=[Order("a"), Order("b", state=State.UNDECIDED)])
    said = story.audit()
    assert "a is still open at the end" in said
    assert "b is" not in said
    assert "the janitor could not collect" in said
    assert "no cold reader found the head" in said
