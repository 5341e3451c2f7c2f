"""Walking over the tables of a workspace, a few at a time, for anti-entropy and collection."""

from collections.abc import AsyncIterator

from arco.catalog.model import TableFormat, TableRow
from arco.catalog.snapshot import Snapshot

_AT_ONCE = 100


async def every_table(
    snapshot: Snapshot, kind: TableFormat, *, dropped: bool = False
) -> AsyncIterator[TableRow]:
    """The rows of all tables and views of a format that are there, or of those that were dropped."""
    for catalog in await snapshot.catalogs():
        async for row in _in_catalog(snapshot, catalog.row.catalog_id, dropped=dropped):
            if row.format is kind:
                yield row


async def _in_catalog(
    snapshot: Snapshot, catalog_id: str, *, dropped: bool
) -> AsyncIterator[TableRow]:
    above: list[str | None] = [None]
    while above:
        for schema in await snapshot.schemas(catalog_id, above.pop()):
            above.append(schema.row.schema_id)
            async for row in _in_schema(snapshot, schema.row.schema_id, dropped=dropped):
                yield row


async def _in_schema(
    snapshot: Snapshot, schema_id: str, *, dropped: bool
) -> AsyncIterator[TableRow]:
    after: str | None = None
    behind: str | None = None
    while True:
        found = await snapshot.tables(
            schema_id, after=after, behind=behind, limit=_AT_ONCE, dropped=dropped
        )
        for each in found:
            yield each.row
        if len(found) < _AT_ONCE:
            return
        after = found[-1].row.name
        behind = found[-1].row.table_id if dropped else None
