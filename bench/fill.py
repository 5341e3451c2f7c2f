"""Catalogs of any size, made at once: whole columns become the base files of one manifest.

To create a hundred thousand tables one after the other would take longer than everything that is measured
on them. What is made here is what as many commits and a merge would have left: the same files, named by an
index and a manifest that our own publisher writes. A catalog is kept, and linked into a directory of its
own for each caller: files of a store are replaced, never written into.
"""

import os
import shutil
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from arco.catalog.column_change import RecordedColumnChange, column_id
from arco.catalog.location import managed_location
from arco.catalog.manifest import Base, BaseIndex, CommitKind, FileRef, Ref
from arco.catalog.model import ObjectKind, TableFormat, TableType
from arco.compactor.domains import file_path
from arco.compactor.publisher import ManifestChange, NewFile, Publisher
from arco.compactor.state_file_writer import encode_state_file
from arco.core import json
from arco.core.clock import utc
from arco.core.hashing import sha256_hex
from arco.core.ids import new_object_id, new_ulid
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.fold.table import StateTable
from arco.fold.tier1 import (
    CATALOGS,
    COLUMNS,
    COMMIT,
    DOMAIN,
    MOVED,
    OBJECTS,
    POSITION,
    SCHEMA_VERSIONS,
    SCHEMAS,
    TABLES,
)
from arco.storage.local import LocalBackend
from arco.storage.roles import Role
from arco.storage.store import Store

CATALOG = "default"

_ACTOR = "user:bench"
_SOURCE = Path(__file__).parent.parent / "src" / "arco"
_MADE_BY = ("fold/*", "catalog/m*", "catalog/column_change", "compactor/[ep]*", "storage/[cl]*")

Values = dict[str, object]  # for each column a list of its values, or one value for all rows


@dataclass(frozen=True)
class Shape:
    """How large a catalog is. Tables are spread evenly over schemas."""

    tables: int
    schemas: int
    columns: int = 5  # of each table

    @property
    def name(self) -> str:
        return f"{self.tables}-{self.schemas}-{self.columns}"


def schema_name(number: int) -> str:
    """The name of a schema of a filled catalog."""
    return f"schema_{number:05d}"


def table_name(number: int) -> str:
    """The name of a table; they are counted from 0 in each schema."""
    return f"table_{number:07d}"


async def filled(runtime: Runtime, scratch: Path, shape: Shape, place: Path) -> Path:
    """A catalog of this shape at `place`, which must not exist yet."""
    kept = scratch / "catalogs" / _fingerprint() / shape.name
    if not kept.exists():
        for other in (scratch / "catalogs").glob("*"):
            if other != kept.parent:
                shutil.rmtree(other)
        draft = kept.with_suffix(".draft")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        await _publish(runtime, draft, _Catalog(runtime, shape))
        draft.rename(kept)
    return Path(shutil.copytree(kept, place, copy_function=os.link))


async def _publish(runtime: Runtime, place: Path, catalog: "_Catalog") -> None:
    backend = LocalBackend(place, runtime, fsync=False)
    store = Store(backend, runtime, scope=Scope(), role=Role.COMPACTOR)
    publisher = Publisher(store, DOMAIN)
    attempt = new_ulid(runtime)
    unbucketed: dict[str, FileRef] = {}
    buckets: dict[str, dict[str, FileRef]] = {}
    files: list[NewFile] = []
    for table, count, values in catalog.rows():
        for bucket, rows in _by_bucket(table, _stamped(table, count, values)):
            ref, raw = encode_state_file(
                table, rows, file_path(DOMAIN, table, f"{bucket:03d}-{attempt}")
            )
            files.append((ref, raw))
            if table.bucket is None:
                unbucketed[table.name] = ref
            else:
                buckets.setdefault(table.name, {})[str(bucket)] = ref
    raw = json.encode(BaseIndex(tables=buckets))
    index = Ref(path=f"snapshots/{DOMAIN}/index/{attempt}.json", sha256=sha256_hex(raw))
    change = ManifestChange(
        kind=CommitKind.MERGE,
        commit_ulid=new_ulid(runtime),
        tail={},
        base=Base(unbucketed=unbucketed, index=index),
        changes_rows=True,
        files=[*files, (index, raw)],
    )
    await publisher.publish(await publisher.chain.head(), change)
    await publisher.chain.close()


class _Catalog:
    """The rows of a catalog, by columns."""

    def __init__(self, runtime: Runtime, shape: Shape) -> None:
        self._shape = shape
        self._at = utc(runtime.clock.now_ms())
        self._life = _life(self._at)
        self._catalog_id = str(new_object_id(runtime))
        self._schema_ids = _ids(runtime, shape.schemas)
        self._table_ids = _ids(runtime, shape.tables)

    def rows(self) -> list[tuple[StateTable, int, Values]]:
        """The tables of state, each with the number of its rows and their values."""
        schemas, tables = self._shape.schemas, self._shape.tables
        rows = [
            (CATALOGS, 1, self._catalogs()),
            (SCHEMAS, schemas, self._schemas()),
            (TABLES, tables, self._tables()),
            (OBJECTS, 1 + schemas + tables, self._objects()),
        ]
        if self._shape.columns:
            rows += [
                (COLUMNS, tables * self._shape.columns, self._columns()),
                (SCHEMA_VERSIONS, tables, self._versions()),
            ]
        return rows

    @cached_property
    def _schema_of(self) -> list[int]:
        return [number % self._shape.schemas for number in range(self._shape.tables)]

    @cached_property
    def _column_ids(self) -> list[list[str]]:
        fields = range(1, self._shape.columns + 1)
        return [[column_id(table, field) for field in fields] for table in self._table_ids]

    def _catalogs(self) -> Values:
        return {"catalog_id": self._catalog_id, "name": CATALOG, **self._life, **_DESCRIBED}

    def _schemas(self) -> Values:
        names = [schema_name(number) for number in range(self._shape.schemas)]
        return {
            "schema_id": self._schema_ids,
            "catalog_id": self._catalog_id,
            "name": names,
            "path": [[name] for name in names],
            "visibility": "all",
            **self._life,
            **_DESCRIBED,
        }

    def _tables(self) -> Values:
        numbers = range(self._shape.tables)
        return {
            "table_id": self._table_ids,
            "catalog_id": self._catalog_id,
            "schema_id": [self._schema_ids[schema] for schema in self._schema_of],
            "name": [table_name(number // self._shape.schemas) for number in numbers],
            "kind": ObjectKind.TABLE.value,
            "format": TableFormat.PARQUET.value,
            "table_type": TableType.MANAGED.value,
            "location": [managed_location(each) for each in self._table_ids],
            "pii_columns": (),
            "schema_version": 1 if self._shape.columns else 0,
            "last_field_id": self._shape.columns,
            MOVED: False,
            **self._life,
            **_DESCRIBED,
        }

    def _objects(self) -> Values:
        parents = [self._schema_ids[schema] for schema in self._schema_of]
        schemas, tables = self._shape.schemas, self._shape.tables
        kinds = [(ObjectKind.CATALOG, 1), (ObjectKind.SCHEMA, schemas), (ObjectKind.TABLE, tables)]
        return {
            "id": [self._catalog_id, *self._schema_ids, *self._table_ids],
            "kind": [kind.value for kind, count in kinds for _ in range(count)],
            "parent_id": [None, *[self._catalog_id] * schemas, *parents],
            "bucket_key": [*[""] * (1 + schemas), *parents],
        }

    def _columns(self) -> Values:
        width, tables = self._shape.columns, self._shape.tables
        return {
            "column_id": [each for ids in self._column_ids for each in ids],
            "table_id": [each for each in self._table_ids for _ in range(width)],
            "name": [_column_name(position) for position in range(width)] * tables,
            "data_type": "string",
            "position": list(range(width)) * tables,
            "nullable": True,
            "field_id": list(range(1, width + 1)) * tables,
            **self._life,
        }

    def _versions(self) -> Values:
        recorded = [
            [_recorded(at, each) for at, each in enumerate(ids)] for ids in self._column_ids
        ]
        return {
            "table_id": self._table_ids,
            "version": 1,
            "changes": [json.encode([_added(each) for each in ids]).decode() for ids in recorded],
            "columns": [json.encode(ids).decode() for ids in recorded],
            "changed_at": self._at,
            "changed_by": _ACTOR,
        }


_DESCRIBED: Values = {"properties": {}, "tags": (), "owner": _ACTOR}


def _life(at: datetime) -> Values:
    return {"created_at": at, "created_by": _ACTOR, "updated_at": at, "updated_by": _ACTOR}


def _column_name(position: int) -> str:
    return f"column_{position:03d}"


def _recorded(position: int, column: str) -> dict[str, object]:
    return {
        "column_id": column,
        "name": _column_name(position),
        "data_type": "string",
        "position": position,
        "nullable": True,
        "field_id": position + 1,
    }


def _added(column: dict[str, object]) -> RecordedColumnChange:
    return RecordedColumnChange("added", str(column["column_id"]), str(column["name"]), {}, column)


def _ids(runtime: Runtime, count: int) -> list[str]:
    """UUIDs of version 7, all of one moment, faster than one by one."""
    stamp = new_object_id(runtime)[:15]
    noise = runtime.rng.randbytes(count * 9).hex()
    cuts = (noise[start : start + 18] for start in range(0, len(noise), 18))
    return [f"{stamp}{cut[:3]}-8{cut[3:6]}-{cut[6:]}" for cut in cuts]


def _stamped(table: StateTable, count: int, values: Values) -> pa.Table:
    """The rows as Arrow, as if one commit had made them all."""
    stamped = {**values, COMMIT: 0, POSITION: list(range(count))}
    arrays = [_array(field.type, stamped.get(field.name), count) for field in table.schema]
    return pa.table(arrays, schema=table.schema)


def _array(kind: pa.DataType, value: object, count: int) -> pa.Array:
    if isinstance(value, list):
        return pa.array(value, kind)
    return pa.nulls(count, kind) if value is None else pa.repeat(pa.scalar(value, kind), count)


def _by_bucket(table: StateTable, rows: pa.Table) -> list[tuple[int, pa.Table]]:
    """The rows of each bucket, in the order of their file."""
    numbered = rows.append_column("bucket", pa.array(table.buckets_of(rows), pa.int32()))
    keys = [(name, "ascending", "at_start") for name in ("bucket", *table.sort, *table.key)]
    ordered = numbered.take(pc.sort_indices(numbered, sort_keys=keys))
    runs = pc.run_end_encode(ordered.column("bucket").combine_chunks())
    buckets, start = [], 0
    for bucket, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        part = ordered.slice(start, end - start).drop_columns("bucket")
        buckets.append((bucket, part.combine_chunks()))
        start = end
    return buckets


def _fingerprint() -> str:
    """Changes with the code that a catalog is made by."""
    files = {each for pattern in _MADE_BY for each in _SOURCE.glob(f"{pattern}.py")}
    texts = [each.read_bytes() for each in sorted({Path(__file__), *files})]
    return sha256(b"".join(texts)).hexdigest()[:16]
