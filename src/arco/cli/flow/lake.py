"""The lake over HTTP: tables and files as the threads of tasks ask for them, by the native API."""

from threading import Lock
from typing import TYPE_CHECKING

import msgspec

from arco.catalog.location import LOCATION_ROOT
from arco.cli.remote import ICEBERG, Remote, path
from arco.cli.target import Target, read_table
from arco.core import json
from arco.core.errors import AlreadyExists, Invalid, NotFound, Unavailable
from arco.core.tasks import run
from arco.flow.publish.wire import FilesPublished, FilesStaged, TableVersionFiles
from arco.flow.worker.ports import LakeColumn, LakeStore, LakeTable, NewLakeTable

if TYPE_CHECKING:
    from arco.core.runtime import Runtime

PARTITION_COLUMNS = "partition_columns"  # a property of tables that pipelines make

_TRIES = 5


class _Column(msgspec.Struct):
    """A column, as far as it matters here."""

    id: str
    name: str
    data_type: str
    nullable: bool
    comment: str | None
    pii_type: str | None = None


class _Table(msgspec.Struct):
    """A table, as far as it matters here."""

    id: str
    format: str | None
    location: str | None
    comment: str | None
    owner: str | None
    tags: tuple[str, ...]
    columns: tuple[_Column, ...] = ()


class _Config(msgspec.Struct):
    """The configuration of clients of Iceberg, as far as it matters here."""

    defaults: dict[str, str]


class HttpLake:
    """The catalog of a running Arco. May be used by many threads at once."""

    def __init__(self, url: str, runtime: "Runtime", *, token: str | None = None) -> None:
        self._remote = Remote(url, runtime, lambda ms: run(runtime.clock.sleep(ms)), token=token)
        self._lock = Lock()
        self._described: set[tuple[str, NewLakeTable]] = set()

    def close(self) -> None:
        """Close the connections."""
        self._remote.close()

    def find(self, table: str) -> LakeTable | None:
        found = self._get(read_table(table, None))
        return None if found is None else _lake_table(table, found)

    def make(self, wanted: NewLakeTable) -> LakeTable:
        target = read_table(wanted.name, None)
        body: dict[str, object] = {
            "name": target.table,
            "format": wanted.format.upper(),
            "columns": [_new_column(each) for each in wanted.columns],
            "comment": wanted.comment,
            "owner": wanted.owner,
            "tags": list(wanted.tags),
        }
        if wanted.partition_columns:
            body["properties"] = {PARTITION_COLUMNS: ",".join(wanted.partition_columns)}
        for _ in range(_TRIES):
            try:
                self._remote.change("POST", f"{path(*target.parent.url)}/tables", body)
            except NotFound:
                self._make_schema(target.parent)
                continue
            except AlreadyExists:
                pass  # somebody was faster: theirs is as good
            found = self.find(wanted.name)
            if found is not None:
                return found
        raise Unavailable(f"{wanted.name} is made and dropped all the time: try again")

    def make_schema(self, table: str) -> None:
        self._make_schema(read_table(table, None).parent)

    def widen(self, table: LakeTable, columns: tuple[LakeColumn, ...]) -> LakeTable:
        if not _lacking(table, columns):
            return table
        target = read_table(table.name, None)
        for _ in range(_TRIES):
            now = self.find(table.name)
            if now is None:
                raise NotFound(f"there is no table {table.name}: it was dropped meanwhile")
            lacking = _lacking(now, columns)
            if not lacking:
                return now
            try:
                self._remote.change("POST", f"{path(*target.url)}/columns", {"columns": lacking})
            except (AlreadyExists, Invalid):
                then = self.find(table.name)
                if then is None or _lacking(then, columns) == lacking:
                    raise  # nobody was faster: it is refused for what it is
        raise Unavailable(f"the columns of {table.name} change all the time: try again")

    def narrow(self, table: LakeTable, columns: tuple[str, ...]) -> LakeTable:
        target = read_table(table.name, None)
        for name in columns:
            try:
                self._remote.change("DELETE", path(*target.url, "columns", name))
            except NotFound:
                continue  # another task of the same asset has dropped it
        now = self.find(table.name)
        if now is None:
            raise NotFound(f"there is no table {table.name}: it was dropped meanwhile")
        return now

    def describe(self, table: LakeTable, wanted: NewLakeTable) -> None:
        said = msgspec.structs.replace(wanted, columns=())
        with self._lock:
            if (table.table_id, said) in self._described:
                return
        target = read_table(table.name, None)
        found = self._get(target)
        changes = {} if found is None else _changes(found, wanted)
        if changes:
            self._remote.change("PATCH", path(*target.url), changes)
        with self._lock:
            self._described.add((table.table_id, said))

    def files(self, table_id: str) -> TableVersionFiles:
        return json.decode(self._remote.get(path("tables", table_id, "files")), TableVersionFiles)

    def publish(self, staged: FilesStaged) -> FilesPublished:
        body = self._remote.change("POST", path("tables", staged.table_id, "versions"), staged)
        return json.decode(body, FilesPublished)

    def store(self) -> LakeStore:
        """Where managed tables lie, and how clients reach it."""
        told = json.decode(self._remote.get("/v1/config", below=ICEBERG), _Config).defaults
        settings = {name: value for name, value in told.items() if name != LOCATION_ROOT}
        return LakeStore(location=told.get(LOCATION_ROOT, ""), settings=settings)

    def _get(self, target: Target) -> _Table | None:
        try:
            return json.decode(self._remote.get(path(*target.url)), _Table)
        except NotFound:
            return None

    def _make_schema(self, schema: Target) -> None:
        """The schema of a table, and those that it lies in."""
        for depth in range(1, len(schema.schema) + 1):
            levels = schema.schema[:depth]
            body = {"name": levels[-1], "parent": list(levels[:-1])}
            try:
                self._remote.change("POST", path("catalogs", schema.catalog, "schemas"), body)
            except AlreadyExists:
                continue


def _lacking(table: LakeTable, columns: tuple[LakeColumn, ...]) -> list[dict[str, object]]:
    known = {each.name for each in table.columns}
    return [_new_column(each) for each in columns if each.name not in known]


def _changes(found: _Table, wanted: NewLakeTable) -> dict[str, object]:
    """What a definition says otherwise than the catalog; what it does not say is left to people."""
    changes: dict[str, object] = {}
    if wanted.comment is not None and wanted.comment != found.comment:
        changes["comment"] = wanted.comment
    if wanted.owner is not None and wanted.owner != found.owner:
        changes["owner"] = wanted.owner
    lacking = [tag for tag in wanted.tags if tag not in found.tags]
    if lacking:
        changes["tags"] = [*found.tags, *lacking]
    return changes


def _new_column(column: LakeColumn) -> dict[str, object]:
    return {
        "name": column.name,
        "data_type": column.data_type,
        "nullable": column.nullable,
        "comment": column.comment,
    }


def _lake_table(name: str, found: _Table) -> LakeTable:
    return LakeTable(
        name=name,
        table_id=found.id,
        format=(found.format or "").lower(),
        location=found.location or "",
        columns=tuple(
            LakeColumn(
                name=each.name,
                data_type=each.data_type,
                column_id=each.id,
                nullable=each.nullable,
                comment=each.comment,
                pii_type=each.pii_type,
            )
            for each in found.columns
        ),
    )
