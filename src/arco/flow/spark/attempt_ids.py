"""Which attempts belong to one task: their ids follow from its name and their numbers."""

from itertools import takewhile

from arco.catalog.publication import Attempt
from arco.flow.run.task_state import attempt_ids_of

_MOST = 1_000


def attempts_before(attempt: Attempt) -> frozenset[str]:
    """The ids of an attempt and of all earlier ones at the same task."""
    run_id, _, key = attempt.task.partition("/")
    ids = attempt_ids_of(run_id, key, _MOST)
    earlier = takewhile(lambda each: each != attempt.attempt_id, ids)
    return frozenset({attempt.attempt_id, *earlier})
