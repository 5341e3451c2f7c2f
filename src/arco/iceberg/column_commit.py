"""Commits that change the columns of a table, and the copy of the columns in the catalog.

A request is about names; the updates are built again for each base, so a lost race is retried like that
of any commit. The catalog's copy is updated ("projected") before the answer is sent, so that the caller
reads its own change.
"""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import UNSET

from arco.catalog.change import change
from arco.catalog.ddl import (
    AddColumns,
    ColumnRequest,
    ColumnSpec,
    ProjectColumns,
    TableName,
    UpdateColumn,
)
from arco.catalog.model import ColumnRow, CommittedRow, Sensitivity, TableRow
from arco.catalog.pending_request import Caller, ChangeResult
from arco.core.errors import Corrupt, Unknown
from arco.iceberg.commit import TABLE_ENGINE, CommitWork
from arco.iceberg.context import IcebergContext
from arco.iceberg.described_creation import with_classifications
from arco.iceberg.engine import shape
from arco.iceberg.engine.columns import change_schema, columns_of
from arco.iceberg.engine.metadata import current_schema
from arco.iceberg.loaded_metadata import LoadedMetadata
from arco.iceberg.name_resolution import FullName
from arco.iceberg.pointer_head import PointerHead
from arco.iceberg.prepared_commit import PreparedCommit
from arco.iceberg.wire import CommitTableRequest
from arco.ledger.claim import Claim
from arco.storage.chain import Head

LAST_ADDED = -1
_CATALOG_FIELDS = ("pii_type", "sensitivity")  # members of a column that Iceberg does not have

Classifications = Mapping[str, Mapping[str, str | Sensitivity | None]]


class ProjectedCommit(CommitWork):
    """A commit after which the caller projects the columns, before the answer."""

    def _schedule_steps(
        self, table_id: str, head: Head, prepared: PreparedCommit, base: LoadedMetadata
    ) -> None:
        if head.entry is not None:
            obsolete = prepared.obsolete_files(base.metadata)
            self._context.after_commit.schedule(table_id, head.entry, obsolete=obsolete)


class ColumnCommitWork(ProjectedCommit):
    """A change of a table's columns."""

    def __init__(
        self, context: IcebergContext, name: FullName, change: ColumnRequest, caller: Caller
    ) -> None:
        super().__init__(context, name, CommitTableRequest(), caller, TABLE_ENGINE)
        self._requested = change

    def _prepare(
        self, base: LoadedMetadata, table_head: PointerHead, claim: Claim
    ) -> PreparedCommit | None:
        metadata = base.metadata
        schema = current_schema(metadata)
        last_column_id = shape.integer(metadata, "last-column-id", "the table")
        after, _ = change_schema(schema, last_column_id, self._requested)
        if after is schema:
            return None
        schema_id = metadata["current-schema-id"]
        self._request = CommitTableRequest(
            requirements=({"type": "assert-current-schema-id", "current-schema-id": schema_id},),
            updates=(
                {"action": "add-schema", "schema": after},
                {"action": "set-current-schema", "schema-id": LAST_ADDED},
            ),
        )
        return super()._prepare(base, table_head, claim)


def classifications_of(change: ColumnRequest) -> Classifications:
    """The classifications in a column request, by column name."""
    if isinstance(change, AddColumns):
        return column_classifications(change.columns)
    if not isinstance(change, UpdateColumn):
        return {}
    name = change.column if change.name is UNSET else change.name
    return {
        name: {
            each: getattr(change, each)
            for each in _CATALOG_FIELDS
            if getattr(change, each) is not UNSET
        }
    }


def column_classifications(columns: Sequence[ColumnSpec]) -> Classifications:
    """The classifications of new columns, by name, without those that are not given."""
    return {
        each.name: {
            name: getattr(each, name) for name in _CATALOG_FIELDS if getattr(each, name) is not None
        }
        for each in columns
    }


async def project_columns(
    context: IcebergContext,
    table_id: str,
    target: TableName,
    classifications: Classifications,
    actor: str,
) -> ChangeResult:
    """Update the columns in the catalog to the current schema, with the given classifications.

    New columns get theirs in the same change, existing ones in a change right after. Columns that are
    up to date are left alone, so that a repeated request gets the same answer.
    """
    done, table_head = (
        await read_catalog_result(context, table_id),
        await context.heads.of(table_id),
    )
    table_head = await context.heads.settle(table_head)
    if table_head.location is None:
        return done  # dropped since
    projected = table_row_of(done).row.projected
    if projected is None or projected < table_head.number:
        schema = current_schema((await context.load(table_head.location)).metadata)
        columns = with_classifications(
            columns_of(schema), [_spec(name, result) for name, result in classifications.items()]
        )
        request = ProjectColumns(table_id=table_id, pointer=table_head.number, columns=columns)
        done = await change(context.committer, request, actor)
    rows = {row.name: row for row in done.columns}
    if not classifications.keys() <= rows.keys():
        raise Unknown(
            "the columns were changed, and another change has followed; read the table again"
        )
    stale_columns = [
        name for name, result in classifications.items() if _differ(rows[name], result)
    ]
    if not stale_columns:
        return done
    requests = [
        UpdateColumn(target=target, column=name, **classifications[name])  # type: ignore[arg-type]
        for name in stale_columns
    ]
    await context.runtime.tasks.gather(
        *(change(context.committer, each, actor) for each in requests)
    )
    return await read_catalog_result(context, table_id)


async def read_catalog_result(context: IcebergContext, table_id: str) -> ChangeResult:
    """A table or view in the newest snapshot, live or dropped."""
    snapshot = await context.reader.head()
    table = await snapshot.find(table_id, dropped=True)
    column_rows = await snapshot.columns(table_id)
    return ChangeResult(
        number=table.commit,
        commit_ulid="",
        operation="",
        object=table,
        columns=tuple(each.row for each in column_rows),
    )


def table_row_of(done: ChangeResult) -> CommittedRow[TableRow]:
    """The row of the table or view that a change was about."""
    row = done.object.row
    if not isinstance(row, TableRow):
        raise Corrupt("an object with a pointer chain is neither a table nor a view")
    return CommittedRow(row, done.object.commit)


def _spec(name: str, result: Mapping[str, str | Sensitivity | None]) -> ColumnSpec:
    return msgspec.structs.replace(ColumnSpec(name=name, data_type=""), **result)


def _differ(row: ColumnRow, result: Mapping[str, str | Sensitivity | None]) -> bool:
    return any(getattr(row, name) != value for name, value in result.items())
