"""Every rule that is taken out is missed, and taking one out leaves nothing behind."""

from itertools import chain as joined
from types import FunctionType

import pytest

from arco.storage import chain
from arco.storage.retry import RetryingBackend

from . import iceberg_mutants, operations_mutants
from .mutants import Mutant, first_catch
from .registry import MUTANTS
from .scenario import run_seed

# Where the rarer ones were last met: the hunt begins there, and goes everywhere if that was in vain.
_LAST_MET = {
    "a shortened tail in another order than the commits": 162,
    "a tail shortened without a look at its inputs": 12,
    "a request that slept begins all the same": 5,
    "a search that slept is trusted": 64,
    "forgotten before its time": 35,
    "hold not checked before the commit": 8,
    "merge without a look at its inputs": 112,
    "nothing checked above the claim": 79,
    "one row twice in a commit": 78,
    "rebuild without the bounds of its time": 10,
    "record that may yet be named collected": 354,
    "rows forgotten in a tail": 5,
    "segments collected by the head": 2,
    "next segment before the last is known": 32,
    "refusal answered without its number": 70,
    "seal collected": 45,
    "stream ended by clock": 20,
    "unknown answered as a failure": 16,
}


@pytest.mark.sim
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_rule_that_is_taken_out_is_missed(name: str) -> None:
    mutant, factory = MUTANTS[name]
    near = _LAST_MET.get(name, 0)
    caught = first_catch(mutant, factory, joined(range(near, near + 60), range(400)))
    assert caught is not None, f"{mutant.rule} can be taken out unnoticed"
    assert run_seed(factory, caught.seed).violations == ()


def test_every_mutant_fits_the_present_code() -> None:
    of_points = (*iceberg_mutants.MUTANTS.values(), *operations_mutants.POINT_MUTANTS)
    for mutant in (*(each for each, _ in MUTANTS.values()), *of_points):
        with mutant.applied():
            pass


def test_a_mutant_reaches_every_module_that_imported_the_function_and_is_undone() -> None:
    mutant = Mutant("m", "P1", "arco.storage.entry:make_entry", "new_ulid(runtime)", '"same"')
    imported: FunctionType = vars(chain)["make_entry"]
    before = imported.__code__
    with mutant.applied():
        assert imported.__code__ is not before
        assert "same" in imported.__code__.co_consts
    assert imported.__code__ is before


def test_a_mutant_is_undone_after_an_error() -> None:
    mutant = Mutant(
        "m", "P2", "arco.storage.retry:RetryingBackend.create", "attempt += 1", "attempt += 2"
    )
    before = RetryingBackend.create.__code__
    with pytest.raises(ZeroDivisionError), mutant.applied():
        raise ZeroDivisionError
    assert RetryingBackend.create.__code__ is before


@pytest.mark.parametrize(("old", "times"), [("never there", 0), ("await", 3)])
def test_a_mutant_whose_text_is_not_there_once_is_refused(old: str, times: int) -> None:
    mutant = Mutant("m", "P2", "arco.storage.retry:RetryingBackend.create", old, "")
    with pytest.raises(ValueError, match=f"found {times} times"), mutant.applied():
        pass


def test_a_mutant_of_something_that_is_no_function_is_refused() -> None:
    mutant = Mutant("m", "P2", "arco.storage.chain:SHORTEST_RETENTION_MS", "", "")
    with pytest.raises(TypeError), mutant.applied():
        pass
