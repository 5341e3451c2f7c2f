"""Fences and versions of tables by their format: Iceberg and plain Parquet tables have chains."""

from collections.abc import Mapping

from arco.catalog.ddl import TableName
from arco.catalog.model import ObjectKind, TableFormat, TableRow
from arco.catalog.name import parse_dotted
from arco.catalog.publication import DispatchedAttempt, NumberedPublication
from arco.catalog.reader import SnapshotReader
from arco.core.errors import Invalid, NotFound
from arco.flow.coordinator.ports import TableHead
from arco.flow.plan.table_state import UnprovenFile
from arco.flow.publish.tables import ParquetTables
from arco.iceberg.service import DEFAULT_CATALOG, Iceberg

NO_CHAIN = -1  # the number of a table of another format


class TableFences:
    """The chain heads of tables, and fences on them (P35)."""

    def __init__(self, reader: SnapshotReader, iceberg: Iceberg, parquet: ParquetTables) -> None:
        self._reader = reader
        self._iceberg = iceberg
        self._parquet = parquet

    async def place(self, table: str) -> TableHead | None:
        """The chain head of a table by its full name; None if there is no such table."""
        try:
            row = (await (await self._reader.head()).table(_name(table))).row
        except NotFound:
            return None
        number: int | None = NO_CHAIN
        match _format(row):
            case TableFormat.ICEBERG:
                number = await self._iceberg.fences.number(row.table_id)
            case TableFormat.PARQUET:
                number = await self._parquet.number(row.table_id)
        if number is None:
            return None  # it was dropped, and the snapshot still has its name
        return TableHead(row.table_id, str(row.format or ""), number)

    async def fence(
        self, table_id: str, attempt: DispatchedAttempt, since: int
    ) -> NumberedPublication | int:
        """The publication of any attempt at the task above `since`, or the number of a new fence."""
        row = (await (await self._reader.head()).find(table_id)).row
        match _format(row):
            case TableFormat.ICEBERG:
                return await self._iceberg.fences.fence(table_id, attempt, since)
            case TableFormat.PARQUET:
                return await self._parquet.fence(table_id, attempt, since)
        raise Invalid(f"{row.name} has no versions that could keep a late attempt out")


class TableVersions:
    """The versions and files of tables."""

    def __init__(self, iceberg: Iceberg, parquet: ParquetTables) -> None:
        self._iceberg = iceberg
        self._parquet = parquet

    async def versions(self, table_id: str, format: str) -> tuple[str | None, Mapping[str, str]]:  # noqa: A002
        """The version of the table, and the versions of its partitions where the format has them."""
        if format == TableFormat.ICEBERG:
            return await self._iceberg.versions.versions(table_id)
        if format == TableFormat.PARQUET:
            return await self._parquet.versions(table_id)
        return None, {}

    async def unproven_files(self, table_id: str, format: str) -> tuple[UnprovenFile, ...]:  # noqa: A002
        """The files that no attempt is known to have added; only attempts add files to Parquet tables."""
        if format == TableFormat.ICEBERG:
            files = await self._iceberg.versions.files_without_attempt(table_id)
            return tuple(UnprovenFile(f.partition, f.path, str(f.snapshot_id)) for f in files)
        return ()


def _format(row: object) -> TableFormat | None:
    """The format of a table; None for other objects and tables without a format."""
    if isinstance(row, TableRow) and row.kind is ObjectKind.TABLE:
        return row.format
    return None


def _name(table: str) -> TableName:
    parts = parse_dotted(table)
    if len(parts) < 2:
        raise Invalid(f"{table!r} does not name a table: write schema.table")
    catalog, *schema, name = parts if len(parts) > 2 else (DEFAULT_CATALOG, *parts)
    return TableName(catalog, tuple(schema), name)
