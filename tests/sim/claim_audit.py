"""The auditor of idempotency: compares the answers to users with what the target chain holds."""

from collections import Counter
from typing import TYPE_CHECKING

from arco.core import json
from arco.storage.entry import EntryRecord

from .objects import SimObjects

if TYPE_CHECKING:
    from .claim_scenario import Request


class ClaimAudit:
    """Judges one run."""

    def __init__(self, objects: SimObjects, requests: list["Request"], target: str) -> None:
        self._requests = requests
        self._steps = _applied(objects, target)

    def violations(self) -> list[str]:
        """What is wrong, one sentence each."""
        times = Counter(name for name, _ in self._steps)
        result = [f"{name} took effect {n} times" for name, n in times.items() if n > 1]
        for request in self._requests:
            result += _contradictions(request, applied=times[request.name] > 0)
        counters = [counter for _, counter in self._steps]
        if counters != list(range(1, len(counters) + 1)):
            result.append(f"the counter went {counters}")
        return result


def _contradictions(request: "Request", *, applied: bool) -> list[str]:
    answers = set(request.answers)
    result = []
    if not answers and not request.given_up:
        result.append(f"{request.name} was never answered, though all was calm at the end")
    if len(answers) > 1:
        result.append(f"{request.name} was answered {sorted(answers)}")
    if 200 in answers and not applied:
        result.append(f"{request.name} was answered 200 and did not take effect")
    if 409 in answers and applied:
        result.append(f"{request.name} was answered 409 and took effect")
    return result


def _applied(objects: SimObjects, target: str) -> list[tuple[str, int]]:
    """Each step of the target chain that was ever created, in the order of their numbers."""
    from .claim_scenario import Step

    steps: dict[int, tuple[str, int]] = {}
    for change in objects.log:
        folder, _, name = change.key.rpartition("/")
        if change.verb == "create" and folder == target and name != "head.json":
            record = json.decode(change.body, EntryRecord)
            step = json.decode(bytes(record.body), Step)
            steps[record.number] = (step.name, step.counter)
    return [steps[number] for number in sorted(steps)]
