"""Recalling: the answer of a request that has landed, rebuilt from what was published."""

from arco.catalog.decision import id_of
from arco.catalog.done import Done
from arco.catalog.manifest import read_commit
from arco.catalog.model import ColumnRow, Found, TableRow
from arco.catalog.reader import SnapshotReader
from arco.core.errors import Corrupt


async def recall(reader: SnapshotReader, request_id: str, number: int) -> Done:
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
            return Done(
                number=number,
                commit_ulid=commit.commit_ulid,
                operation=deed.operation,
                object=Found(found.row, number),
                columns=columns,
            )
    raise Corrupt(f"commit {number} does not say what its manifest says it did")
