"""A request on its way to a commit, and the answer that its caller waits for."""

from dataclasses import dataclass

from arco.catalog.ddl import Ddl
from arco.catalog.done import Done
from arco.core.errors import ArcoError
from arco.core.tasks import AsyncEvent
from arco.ledger.idempotency import ClaimHold


@dataclass
class Ask:
    """One request on its way. `base` is a number below which it cannot have landed."""

    request: Ddl
    actor: str
    request_id: str
    new_id: str
    asked_ms: float
    done: AsyncEvent
    base: int | None = None
    hold: ClaimHold | None = None
    answer: Done | None = None
    problem: Exception | None = None
    refused: bool = False  # whether the problem is a verdict on the request itself

    def succeed(self, answer: Done) -> None:
        """It was carried out."""
        self.answer = answer
        self.done.set()

    def refuse(self, verdict: ArcoError) -> None:
        """The request itself cannot be carried out."""
        self.refused = True
        self.fail(verdict)

    def fail(self, problem: Exception) -> None:
        """It was not carried out, or it is not known what became of it."""
        self.problem = problem
        self.done.set()


def still_open(asks: list[Ask]) -> list[Ask]:
    """Those who have no answer yet."""
    return [ask for ask in asks if not ask.done.is_set()]


def fail_all(asks: list[Ask], problem: ArcoError) -> None:
    """Tell all of them the same."""
    for ask in asks:
        ask.fail(problem)
