"""A request on its way to a commit: its caller, and the result that the caller waits for."""

from dataclasses import dataclass

import msgspec

from arco.catalog.ddl import Ddl
from arco.catalog.lookup import CommittedObject
from arco.catalog.manifest import read_commit
from arco.catalog.model import ColumnRow, CommittedRow, TableRow
from arco.catalog.reader import SnapshotReader
from arco.core.errors import ArcoError, Corrupt
from arco.core.tasks import AsyncEvent
from arco.ledger.idempotency import ClaimHold


@dataclass(frozen=True)
class Caller:
    """The principal and engine that request an operation, and how and when they do."""

    actor: str
    engine: str | None
    key: str | None  # the idempotency key
    operation: str
    arrived_ms: float
    update_source: str  # the API of the request, as the events of table commits name it


class ChangeResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a committed request did, with the object as the commit left it."""

    number: int
    commit_ulid: str
    operation: str
    object: CommittedObject
    columns: tuple[ColumnRow, ...] = ()


@dataclass
class PendingRequest:
    """A request that waits for its commit. It cannot have landed at `base` or below."""

    request: Ddl
    actor: str
    request_id: str
    new_id: str
    arrived_ms: float
    done: AsyncEvent
    base: int | None = None
    hold: ClaimHold | None = None
    answer: ChangeResult | None = None
    problem: Exception | None = None
    refused: bool = False  # whether the problem is a refusal of the request itself

    @property
    def may_be_taken_over(self) -> bool:
        """Whether another process can take it over: it has an idempotency key."""
        return self.hold is not None and self.hold.may_be_taken_over

    def succeed(self, answer: ChangeResult) -> None:
        """Answer: the request was committed."""
        self.answer = answer
        self.done.set()

    def refuse(self, refusal: ArcoError) -> None:
        """Answer: the request is not possible in the current state."""
        self.refused = True
        self.fail(refusal)

    def fail(self, problem: Exception) -> None:
        """Answer: the request was not committed, or it is unknown whether it was."""
        self.problem = problem
        self.done.set()


def unanswered(requests: list[PendingRequest]) -> list[PendingRequest]:
    """The requests without an answer."""
    return [pending for pending in requests if not pending.done.is_set()]


def fail_all(requests: list[PendingRequest], problem: ArcoError) -> None:
    """Answer all requests with the same problem."""
    for pending in requests:
        pending.fail(problem)


async def read_change_result(reader: SnapshotReader, request_id: str, number: int) -> ChangeResult:
    """The result of a request that manifest `number` lists, rebuilt from the published state."""
    snapshot = await reader.at_number(number)
    if snapshot.manifest is None:
        raise Corrupt(f"manifest {number} is empty")
    commit = await read_commit(reader.store, snapshot.manifest.commit)
    for operation in commit.operations:
        if operation.request_id == request_id:
            row = (await snapshot.find(operation.object_id, dropped=True)).row
            columns: tuple[ColumnRow, ...] = ()
            if isinstance(row, TableRow):
                columns = tuple(each.row for each in await snapshot.columns(row.table_id))
            return ChangeResult(
                number=number,
                commit_ulid=commit.commit_ulid,
                operation=operation.operation,
                object=CommittedRow(row, number),
                columns=columns,
            )
    raise Corrupt(f"commit {number} lacks request {request_id}, which its manifest lists")
