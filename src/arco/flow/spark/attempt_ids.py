"""Which attempts belong to one task: their ids follow from its name and their numbers."""

from arco.catalog.publication import Attempt
from arco.flow.run.task_state import attempt_id_of

_MOST = 1_000


def attempts_before(attempt: Attempt) -> frozenset[str]:
    """The ids of an attempt and of all earlier ones at the same task."""
    run_id, _, key = attempt.task.partition("/")
    found = {attempt.attempt_id}
    for number in range(1, _MOST):
        each = attempt_id_of(run_id, key, number)
        if each == attempt.attempt_id:
            break
        found.add(each)
    return frozenset(found)
