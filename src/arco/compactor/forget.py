"""Forgetting: which rows a merge leaves out for good.

Rows that were dropped before a moment go, and with them all that lay in them: what lives in a dropped
container has no drop of its own. A uuid that stood for a table which is gone goes with it, unless it has
come to stand for another. A table that has moved leaves a mark in the bucket it left; the mark is
of no use once it has reached the base.
"""

from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from arco.catalog.model import uuid_name
from arco.fold.table import StateTable
from arco.fold.tier1 import (
    CATALOGS,
    COLUMNS,
    MOVED,
    OBJECTS,
    PLACES,
    SCHEMA_VERSIONS,
    SCHEMAS,
    TABLES,
)


class Forgetting:
    """What one merge forgets. Tables are sifted containers first, as each needs what is above it."""

    def __init__(self, before: datetime) -> None:
        self.before = before
        self.catalogs: set[str] = set()
        self.schemas: set[str] = set()
        self.tables: set[str] = set()
        self.aliases: set[str] = set()  # what uuids of those tables are called among the objects
        self.rows = 0  # how many are gone that anybody could have seen

    def buckets(self, table: StateTable) -> set[int]:
        """Where rows of a table may have to go because of what is gone above them."""
        if table is SCHEMAS:
            return {0} if self.catalogs else set()
        if table is TABLES:
            return {table.bucket_of(each) for each in self.schemas}
        if table in (COLUMNS, SCHEMA_VERSIONS):
            return {table.bucket_of(each) for each in self.tables}
        if table is OBJECTS:
            return {table.bucket_of(each) for each in self._everything() | self.aliases}
        if table is PLACES:
            return {0} if self.tables else set()
        return set()

    def sift(self, table: StateTable, rows: pa.Table) -> pa.Table:
        """The rows that stay."""
        leave = self._leave(table, rows)
        kept = rows.filter(pc.invert(leave))
        self.rows += rows.num_rows - kept.num_rows - _marks(table, rows)
        return kept.combine_chunks()

    def _leave(self, table: StateTable, rows: pa.Table) -> pa.ChunkedArray:
        if table is CATALOGS:
            old = self._old(rows)
            self.catalogs |= _ids(rows, "catalog_id", old)
            return old
        if table is SCHEMAS:
            self._follow_schemas(rows)
            return _among(rows, "schema_id", self.schemas)
        if table is TABLES:
            moved = pc.fill_null(rows.column(MOVED), False)
            gone = pc.or_(self._old(rows), _among(rows, "schema_id", self.schemas))
            ended = pc.and_not(gone, moved)
            self.tables |= _ids(rows, "table_id", ended)
            self.aliases |= {uuid_name(each) for each in _ids(rows, "table_uuid", ended) if each}
            return pc.or_(gone, moved)
        if table in (COLUMNS, PLACES):
            return pc.or_(self._old(rows), _among(rows, "table_id", self.tables))
        if table is SCHEMA_VERSIONS:
            return _among(rows, "table_id", self.tables)
        alias = pc.and_(_among(rows, "id", self.aliases), _among(rows, "parent_id", self.tables))
        return pc.or_(_among(rows, "id", self._everything()), alias)

    def _follow_schemas(self, rows: pa.Table) -> None:
        """Schemas that were dropped, lay in a catalog that is gone, or below a schema that is."""
        old = pc.or_(self._old(rows), _among(rows, "catalog_id", self.catalogs))
        self.schemas |= _ids(rows, "schema_id", old)
        while True:
            below = _ids(rows, "schema_id", _among(rows, "parent_id", self.schemas))
            if below <= self.schemas:
                return
            self.schemas |= below

    def _old(self, rows: pa.Table) -> pa.ChunkedArray:
        dropped = pc.less(
            rows.column("dropped_at"), pa.scalar(self.before, pa.timestamp("us", "UTC"))
        )
        return pc.fill_null(dropped, False)

    def _everything(self) -> set[str]:
        return self.catalogs | self.schemas | self.tables


def _marks(table: StateTable, rows: pa.Table) -> int:
    """How many rows say only that a table has moved: no reader sees them."""
    return int(pc.sum(rows.column(MOVED)).as_py() or 0) if table is TABLES else 0


def _among(rows: pa.Table, name: str, values: set[str]) -> pa.ChunkedArray:
    return pc.is_in(rows.column(name), value_set=pa.array(sorted(values), pa.string()))


def _ids(rows: pa.Table, name: str, mask: pa.ChunkedArray) -> set[str]:
    return set(rows.column(name).filter(mask).to_pylist())
