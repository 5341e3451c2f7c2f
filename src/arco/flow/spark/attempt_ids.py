"""Which attempts belong to one task: their ids follow from its name and their numbers."""

from arco.catalog.publication import Attempt
from arco.flow.coordinator.run_state import attempt_ids_of

_MOST = 1_000


def attempts_before(attempt: Attempt) -> frozenset[str]:
    """The ids of an attempt and of all earlier ones at the same task."""
    return frozenset({attempt.attempt_id, *earlier_attempts(attempt)})


def earlier_attempts(attempt: Attempt) -> tuple[str, ...]:
    """The ids of the attempts at the same task before this one."""
    run_id, _, key = attempt.task.partition("/")
    earlier: list[str] = []
    for attempt_id in attempt_ids_of(run_id, key, _MOST):
        if attempt_id == attempt.attempt_id:
            return tuple(earlier)
        earlier.append(attempt_id)
    return ()
