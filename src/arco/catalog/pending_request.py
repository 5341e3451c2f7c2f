"""What a caller is told when its request was carried out."""

from dataclasses import dataclass

import msgspec

from arco.catalog.ddl import Ddl
from arco.catalog.decision import id_of
from arco.catalog.lookup import CommittedObject
from arco.catalog.manifest import read_commit
from arco.catalog.model import ColumnRow, CommittedRow, TableRow
from arco.catalog.reader import SnapshotReader
from arco.core.errors import ArcoError, Corrupt
from arco.core.tasks import Event
from arco.ledger.idempotency import Hold


class ChangeResult(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was carried out, and the object as it was then."""

    number: int
    commit_ulid: str
    operation: str
    object: CommittedObject
    columns: tuple[ColumnRow, ...] = ()


@dataclass
class PendingRequest:
    """One request on its way. `base` is a number below which it cannot have landed."""

    request: Ddl
    actor: str
    request_id: str
    new_id: str
    asked_ms: float
    done: Event
    base: int | None = None
    hold: Hold | None = None
    answer: ChangeResult | None = None
    problem: Exception | None = None
    refused: bool = False  # whether the problem is a verdict on the request itself

    def succeed(self, answer: ChangeResult) -> None:
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


def unanswered(asks: list[PendingRequest]) -> list[PendingRequest]:
    """Those who have no answer yet."""
    return [ask for ask in asks if not ask.done.is_set()]


def fail_all(asks: list[PendingRequest], problem: ArcoError) -> None:
    """Tell all of them the same."""
    for ask in asks:
        ask.fail(problem)


async def read_change_result(reader: SnapshotReader, request_id: str, number: int) -> ChangeResult:
    """The answer of a request that manifest `number` says it has carried out."""
    snapshot = await reader.at_number(number)
    if snapshot.manifest is None:
        raise Corrupt(f"manifest {number} is empty")
    commit = await read_commit(reader.store, snapshot.manifest.commit)
    for deed in commit.deeds:
        if deed.request_id == request_id:
            found = await snapshot.find(deed.object_id, dropped=True)
            columns: tuple[ColumnRow, ...] = ()
            if isinstance(found.row, TableRow):
                listed = await snapshot.columns(id_of(found.row))
                columns = tuple(each.row for each in listed)
            return ChangeResult(
                number=number,
                commit_ulid=commit.commit_ulid,
                operation=deed.operation,
                object=CommittedRow(found.row, number),
                columns=columns,
            )
    raise Corrupt(f"commit {number} does not say what its manifest says it did")
