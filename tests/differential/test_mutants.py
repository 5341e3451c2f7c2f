"""Every rule that is taken out is missed by some seed."""

import pytest

from tests.differential.mutants import MUTANTS, first_catch
from tests.differential.seed import check_seed


@pytest.mark.sim
@pytest.mark.parametrize("name", MUTANTS)
def test_a_rule_that_is_taken_out_is_missed(name: str) -> None:
    caught = first_catch(MUTANTS[name], range(200))
    assert caught is not None, f"{MUTANTS[name].rule} can be taken out unnoticed"
    assert check_seed(caught.seed).problems == []


def test_every_mutant_fits_the_present_code() -> None:
    for mutant in MUTANTS.values():
        with mutant.applied():
            pass
