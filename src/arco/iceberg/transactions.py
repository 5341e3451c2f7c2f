"""Commits to several tables, as clients send them."""

from arco.catalog.ddl import TableName
from arco.core.errors import Invalid
from arco.iceberg.commit import CommitWork
from arco.iceberg.create import CreateWork
from arco.iceberg.desk import Caller, Desk
from arco.iceberg.engine.requirement import is_create
from arco.iceberg.keyed import run
from arco.iceberg.kinds import TABLES
from arco.iceberg.names import Name
from arco.iceberg.tables import staged_birth
from arco.iceberg.transact import TableChange, TransactWork
from arco.iceberg.transaction import Transactions
from arco.iceberg.wire import CommitTableRequest, CommitTransactionRequest

MOST_TABLES = 100


class Commits:
    """Transactions over the tables of a catalog."""

    def __init__(self, desk: Desk, records: Transactions) -> None:
        self._desk = desk
        self._records = records

    async def commit(self, catalog: str, request: CommitTransactionRequest, caller: Caller) -> None:
        """Change all tables, or none; one alone is a plain commit."""
        changes = self._changes(catalog, request, caller)
        work: CommitWork | CreateWork | TransactWork
        if len(changes) == 1 and len(changes[0].requests) == 1:
            [only] = changes
            [wish] = only.requests
            if only.birth is not None:
                work = CreateWork(self._desk, only.birth)
            else:
                work = CommitWork(self._desk, only.name, wish, caller, TABLES)
        else:
            work = TransactWork(self._desk, self._records, changes, caller)
        await run(self._desk, caller, work, [catalog, request])

    def _changes(
        self, catalog: str, request: CommitTransactionRequest, caller: Caller
    ) -> list[TableChange]:
        """What is asked of each table; what is asked of one twice comes one after the other."""
        asked: dict[TableName, list[CommitTableRequest]] = {}
        names: dict[TableName, Name] = {}
        for wish in request.table_changes:
            if wish.identifier is None:
                raise Invalid(
                    "every change of a transaction names its table: identifier is missing"
                )
            name = Name(catalog, wish.identifier.namespace, wish.identifier.name)
            names[name.table] = name
            asked.setdefault(name.table, []).append(wish)
        if not 0 < len(asked) <= MOST_TABLES:
            raise Invalid(f"a transaction changes 1 to {MOST_TABLES} tables, not {len(asked)}")
        return [self._change(names[each], wishes, caller) for each, wishes in asked.items()]

    def _change(self, name: Name, wishes: list[CommitTableRequest], caller: Caller) -> TableChange:
        if not is_create(wishes[0].requirements):
            return TableChange(name, tuple(wishes))
        first = wishes[0]
        if len(wishes) > 1:
            updates = tuple(update for wish in wishes for update in wish.updates)
            first = CommitTableRequest(requirements=first.requirements, updates=updates)
        return TableChange(name, (first,), staged_birth(self._desk, name, first, caller))
