"""The port of a table format, such as Iceberg, which keeps the state of its tables itself.

The catalog owns names, owners, tags, properties and classifications. A format that implements this port
owns the rest: whether a table exists, its columns, the query of a view. `format_router` routes each request
to the catalog or to the format of the table, and only this module connects the two.
"""

from typing import Protocol

import msgspec

from arco.catalog.ddl import (
    ColumnRequest,
    CreateTable,
    CreateView,
    DropTable,
    SchemaName,
    TableName,
    Undrop,
    UpdateTable,
    ViewQuery,
)
from arco.catalog.model import ObjectKind, TableRow
from arco.catalog.pending_request import Caller, ChangeResult
from arco.core.errors import ArcoError
from arco.ledger.claim import Answer
from arco.ledger.idempotency import IdempotentWork


class ViewDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """The queries of a view, and the catalog and namespace of partial names in them."""

    queries: tuple[ViewQuery, ...]
    default_catalog: str | None
    default_namespace: tuple[str, ...]


class DefinedView(ChangeResult, frozen=True, kw_only=True):
    """The result of a request about a view, with the view's definition."""

    definition: ViewDefinition


class FormatOperation(Protocol):
    """A request that a format carries out.

    `work` makes the change, once. `refusal` and `finish` interpret its stored answer; no other code reads
    it. `finish` updates the catalog, for example its copy of the columns. It may run again on a retry: a
    request under the same key that finds the work done still finishes it (P11).
    """

    @property
    def work(self) -> IdempotentWork:
        """The change itself, which takes effect once."""

    def refusal(self, answer: Answer) -> ArcoError:
        """The error in an answer of the work that is not a success."""

    async def finish(self, answer: Answer) -> ChangeResult:
        """Run the finish step after a success; a failure here is `Unknown`, never a refusal (law 9)."""


class TableFormatPort(Protocol):
    """Requests on the tables and views of one format."""

    def decides(self, request: UpdateTable | DropTable | ColumnRequest) -> bool:
        """Whether a request changes the format's state, not only what the catalog records."""

    def create(self, request: CreateTable | CreateView, caller: Caller) -> FormatOperation:
        """Create a table or a view; `Invalid` before anything is written."""

    def alter(
        self, request: UpdateTable | ColumnRequest, kind: ObjectKind, caller: Caller
    ) -> FormatOperation:
        """Rename, move or redefine a table or view, or change columns."""

    def drop(self, request: DropTable, kind: ObjectKind, caller: Caller) -> FormatOperation:
        """Drop a table or view."""

    def undrop(self, request: Undrop, caller: Caller) -> FormatOperation:
        """Name a dropped table or view again."""

    async def describe(self, view: TableName) -> ViewDefinition:
        """The definition of a view, or `NotFound`."""

    # A dropped table keeps its name in the catalog until the name is released (P31). The same holds for a
    # table whose creation never came into effect.

    async def is_dropped(self, table_id: str) -> bool:
        """Whether a table with an unresolved name was dropped; its name is then released later."""

    async def release_name(self, name: TableName) -> None:
        """Release a name that another object is about to get, if its table was dropped."""

    async def release_name_of(self, row: TableRow) -> None:
        """Release the name of a table that was dropped: the catalog must not describe it any more."""

    async def release_names(self, schema: SchemaName) -> None:
        """Release the names of all dropped tables of a schema, so that they do not keep it alive."""
