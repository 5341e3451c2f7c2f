"""Commits that the catalog's own API asks for: the columns of a table, the query of a view.

What is asked is a wish about names; the updates are made of it anew for each base that is met, so a lost
race is made up for like that of any other commit. Columns are shown in the catalog before the answer, so
that who has changed them finds them changed.
"""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import UNSET

from arco.catalog.change import change
from arco.catalog.data_type import normalise
from arco.catalog.ddl import AddColumns, ColumnSpec, ProjectColumns, TableName, UpdateColumn
from arco.catalog.done import Done
from arco.catalog.model import ColumnRow, Found, Sensitivity, TableRow
from arco.core.errors import Corrupt, Invalid, Unknown
from arco.core.json import Json
from arco.iceberg.commit import TABLES, VIEWS, CommitWork
from arco.iceberg.context import Caller, Desk
from arco.iceberg.engine import shape
from arco.iceberg.engine.columns import ColumnRequest, changed_schema, columns_of, field_of
from arco.iceberg.engine.metadata import Metadata, current_schema
from arco.iceberg.engine.schema import index_schema
from arco.iceberg.engine.shape import Object
from arco.iceberg.engine.spark_types import numbered, spark_type
from arco.iceberg.loaded_metadata import Loaded
from arco.iceberg.name_resolution import Name
from arco.iceberg.native_create import SUMMARY, marked, representations
from arco.iceberg.pointer_head import Standing
from arco.iceberg.prepared_commit import Attempt
from arco.iceberg.view_request import Redefinition
from arco.iceberg.wire import CommitTableRequest, CommitViewRequest
from arco.ledger.claim import Claim
from arco.storage.chain import Head

_LAST_ADDED = -1
_OURS = ("pii_type", "sensitivity")  # what is the catalog's own of a column


class _ShownCommit(CommitWork):
    """A commit whose columns are shown by who waits for them, and not beside the answer."""

    def _follow(self, table_id: str, head: Head, made: Attempt, base: Loaded) -> None:
        if head.entry is not None:
            spent = made.spent(base.metadata)
            self._desk.aftermath.follow(table_id, head.entry, spent=spent)


class ColumnCommit(_ShownCommit):
    """A change of a table's columns."""

    def __init__(self, desk: Desk, name: Name, wish: ColumnRequest, caller: Caller) -> None:
        super().__init__(desk, name, CommitTableRequest(), caller, TABLES)
        self._wish = wish

    def _decide(self, base: Loaded, standing: Standing, claim: Claim) -> Attempt | None:
        metadata = base.metadata
        schema = current_schema(metadata)
        last = shape.integer(metadata, "last-column-id", "the table")
        after, _ = changed_schema(schema, last, self._wish)
        if after is schema:
            return None
        known = metadata["current-schema-id"]
        self._request = CommitTableRequest(
            requirements=({"type": "assert-current-schema-id", "current-schema-id": known},),
            updates=(
                {"action": "add-schema", "schema": after},
                {"action": "set-current-schema", "schema-id": _LAST_ADDED},
            ),
        )
        return super()._decide(base, standing, claim)


class ViewCommit(_ShownCommit):
    """Another version of a view."""

    def __init__(self, desk: Desk, name: Name, wish: Redefinition, caller: Caller) -> None:
        super().__init__(desk, name, CommitViewRequest(), caller, VIEWS)
        self._wish = wish

    def _decide(self, base: Loaded, standing: Standing, claim: Claim) -> Attempt | None:
        metadata = base.metadata
        old, schema = current_version(metadata), current_schema(metadata)
        after = self._schema(metadata, schema)
        new = self._version(old)
        if after == schema and new == old:
            return None
        fresh: Object = {
            "schema-id": _LAST_ADDED,
            "summary": SUMMARY,
            "timestamp-ms": self._desk.runtime.clock.now_ms(),
        }
        self._request = CommitViewRequest(
            requirements=({"type": "assert-view-uuid", "uuid": metadata["view-uuid"]},),
            updates=(
                {"action": "add-schema", "schema": after},
                {"action": "add-view-version", "view-version": {**new, **fresh}},
                {"action": "set-current-view-version", "view-version-id": _LAST_ADDED},
            ),
        )
        return super()._decide(base, standing, claim)

    def _version(self, old: Object) -> Object:
        wish, new = self._wish, dict(old)
        if wish.queries is not UNSET:
            new["representations"] = representations(wish.queries)
        if wish.default_namespace is not UNSET:
            new["default-namespace"] = [*wish.default_namespace]
        if wish.default_catalog is not UNSET:
            new.pop("default-catalog", None)
            if wish.default_catalog is not None:
                new["default-catalog"] = wish.default_catalog
        return new

    def _schema(self, metadata: Metadata, schema: Object) -> Object:
        """The schema with the columns that are wished for; one that stays keeps its id."""
        columns = self._wish.columns
        if columns is UNSET:
            return schema
        known = {field["name"]: field for field in shape.objects(schema, "fields", "the view")}
        schemas = shape.objects(metadata, "schemas", "the view")
        last = max(index_schema(each).highest for each in schemas)

        def next_id() -> int:
            nonlocal last
            last += 1
            return last

        fields: list[Json] = []
        for column in columns:
            field, old = field_of(column), known.get(column.name)
            if old is not None and spark_type(old["type"], column.name) == normalise(
                column.data_type
            ):
                fields.append({"id": old["id"], **field, "type": old["type"]})
            else:
                kind = numbered(field["type"], next_id)
                fields.append({"id": next_id(), **field, "type": kind})
        after: Object = {**schema, "fields": fields}
        columns_of(after)  # refuses doubles
        return after


def current_version(metadata: Metadata) -> Object:
    """The version of a view that counts."""
    current = metadata.get("current-version-id")
    for version in shape.objects(metadata, "versions", "the view"):
        if version.get("version-id") == current:
            return version
    raise Invalid(f"the current version of the view is {current}, which is not there")


Marks = Mapping[str, Mapping[str, str | Sensitivity | None]]


def marks_of(wish: ColumnRequest) -> Marks:
    """What is asked of columns, by name, that is the catalog's own and not Iceberg's."""
    if isinstance(wish, AddColumns):
        return marks_in(wish.columns)
    if not isinstance(wish, UpdateColumn):
        return {}
    name = wish.column if wish.name is UNSET else wish.name
    return {name: {each: getattr(wish, each) for each in _OURS if getattr(wish, each) is not UNSET}}


def marks_in(columns: Sequence[ColumnSpec]) -> Marks:
    """What is said of columns when they are made; what is not said stays as it is."""
    return {
        each.name: {name: getattr(each, name) for name in _OURS if getattr(each, name) is not None}
        for each in columns
    }


async def show_columns(
    desk: Desk, table_id: str, target: TableName, marks: Marks, actor: str
) -> Done:
    """Have the catalog show the columns as they are by now, with what it is to say of them itself.

    Such marks come with the columns, where those are new to the catalog, and else right after them. What is
    shown already is left as it is, so that a repeated request is answered the same.
    """
    done, standing = await shown(desk, table_id), await desk.standings.of(table_id)
    standing = await desk.standings.decided(standing)
    if standing.location is None:
        return done  # dropped since
    projected = found_table(done).row.projected
    if projected is None or projected < standing.number:
        schema = current_schema((await desk.load(standing.location)).metadata)
        columns = marked(columns_of(schema), [_spec(name, told) for name, told in marks.items()])
        request = ProjectColumns(table_id=table_id, pointer=standing.number, columns=columns)
        done = await change(desk.committer, request, actor)
    rows = {row.name: row for row in done.columns}
    if not marks.keys() <= rows.keys():
        raise Unknown("the columns were changed, and have changed again since")
    late = [name for name, told in marks.items() if _differ(rows[name], told)]
    if not late:
        return done
    requests = [UpdateColumn(target=target, column=name, **marks[name]) for name in late]  # type: ignore[arg-type]  # by their names
    await desk.runtime.tasks.gather(*(change(desk.committer, each, actor) for each in requests))
    return await shown(desk, table_id)


async def shown(desk: Desk, table_id: str) -> Done:
    """A table or view as the newest snapshot has it, there or dropped."""
    snapshot = await desk.reader.head()
    found = await snapshot.find(table_id, dropped=True)
    listed = await snapshot.columns(table_id)
    return Done(
        number=found.commit,
        commit_ulid="",
        operation="",
        object=found,
        columns=tuple(each.row for each in listed),
    )


def found_table(done: Done) -> Found[TableRow]:
    """The table or view that a change was about."""
    row = done.object.row
    if not isinstance(row, TableRow):
        raise Corrupt("what has a chain of pointers is neither a table nor a view")
    return Found(row, done.object.commit)


def _spec(name: str, told: Mapping[str, str | Sensitivity | None]) -> ColumnSpec:
    return msgspec.structs.replace(ColumnSpec(name=name, data_type=""), **told)


def _differ(row: ColumnRow, told: Mapping[str, str | Sensitivity | None]) -> bool:
    return any(getattr(row, name) != value for name, value in told.items())
