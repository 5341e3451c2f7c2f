"""Runs that cannot be tried again: what is said of them."""

from arco.core.errors import Invalid


def not_over(run_id: str) -> Invalid:
    """That a run is still under way, or may be."""
    refused = Invalid(f"run {run_id} is not over")
    refused.add_note("Cancel it first, or wait for its end.")
    return refused


def all_made(run_id: str) -> Invalid:
    """That a run has left nothing undone."""
    return Invalid(f"run {run_id} has made everything: there is nothing to try again")
