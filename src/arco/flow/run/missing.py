"""Runs and tasks that are not there: what is said of them, and where those are listed that are."""

from arco.core.errors import NotFound


def no_run(said: str) -> NotFound:
    """That there is no such run."""
    return _with_step(said, "Check its id; `arco runs` lists all runs.")


def no_task(said: str) -> NotFound:
    """That a run has no such task."""
    return _with_step(said, "Check its name; `arco runs RUN` lists the tasks of a run.")


def _with_step(said: str, step: str) -> NotFound:
    missing = NotFound(said)
    missing.add_note(step)
    return missing
