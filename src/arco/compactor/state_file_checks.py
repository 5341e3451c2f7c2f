"""Checks of state files: their bytes, and their content against what the manifest says of them.

The hash shows that a file has the bytes that were published. The content check shows that they are right:
a Parquet file of its table, sorted, one row per key, in the buckets and bounds by which readers skip files.
It does not use the code that wrote those claims. Each file is checked once, even if many manifests name it.
"""

import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from arco.catalog.manifest import BaseIndex, Commit, FileRef, Manifest, Ref, read_index
from arco.compactor.collecting_store import ProgressCounter
from arco.compactor.domains import COMBINED, folder_of, tables_of
from arco.compactor.verification_report import (
    Discrepancy,
    ProblemKind,
    VerificationCounts,
    to_discrepancy,
)
from arco.core.errors import Corrupt
from arco.core.hashing import sha256_hex
from arco.fold.table import StateTable
from arco.fold.tier1 import COMMIT, DOMAIN
from arco.storage.store import Store

_PARALLEL_READS = 16

_NO_INDEX = BaseIndex(tables={})


@dataclass
class _NamedFile:
    """A file of a state: what the manifest says of it, for each table with rows in it."""

    path: str
    in_tail: bool
    refs: dict[str, FileRef] = field(default_factory=dict)


class StateFileCheck:
    """Checks the files of one manifest after the other, newest first."""

    def __init__(
        self,
        store: Store,
        domain: str,
        checked: VerificationCounts,
        sound: set[FileRef],
        progress: ProgressCounter,
    ) -> None:
        self._store = store
        self._domain = domain
        self._checked = checked
        self._sound = sound
        self._progress = progress
        # By path, as the manifest describes it.
        self._checked_refs: dict[str, Mapping[str, FileRef] | Ref] = {}
        self._index: tuple[Ref | None, BaseIndex] = (None, _NO_INDEX)
        # By table and path, until `published` takes them.
        self._tails: dict[tuple[str, str], pa.Table] = {}
        # By table and path, the first commit that a row carries.
        self._oldest: dict[tuple[str, str], int] = {}

    async def check(self, manifest: Manifest, record: Commit) -> None:
        """`Discrepancy` if a file that a manifest names is wrong."""
        number = record.number
        index = await self._read_index(manifest.base.index, number)
        files = _files(manifest, index)
        self._progress.expect(sum(file.path not in self._checked_refs for file in files))
        for at in range(0, len(files), _PARALLEL_READS):
            await self._store.runtime.tasks.gather(
                *(self._check_file(file, number) for file in files[at : at + _PARALLEL_READS])
            )
        self._check_order(manifest, number)
        named_refs = {(file.path, ref.sha256) for file in files for ref in file.refs.values()}
        named_refs |= {(ref.path, ref.sha256) for ref in (manifest.base.index,) if ref}
        for added in record.added:
            if (added.path, added.sha256) not in named_refs:
                fault = f"lists {added.path} as added, and its manifest does not name it"
                raise Discrepancy(ProblemKind.COMMIT, manifest.commit.path, fault, number=number)

    def published(self, manifest: Manifest, number: int) -> dict[str, pa.Table] | None:
        """The rows that a commit added, by table; None if some were not read."""
        names = [name for name, files in manifest.tail.items() if files[-1].newest == number]
        tails = {
            name: self._tails.pop((name, manifest.tail[name][-1].path), None) for name in names
        }
        rows = {name: tail for name, tail in tails.items() if tail is not None}
        return rows if len(rows) == len(names) else None

    def _check_order(self, manifest: Manifest, number: int) -> None:
        """`Discrepancy` if a file of a tail has rows of a commit that is not above the file before it."""
        for name, files in manifest.tail.items():
            for before, ref in pairwise(files):
                oldest = self._oldest.get((name, ref.path))
                if oldest is not None and oldest <= before.newest:
                    fault = (
                        f"has rows of {name} of commit {oldest}, and an older file has newer ones"
                    )
                    raise _file_discrepancy(ref, fault, number)

    async def _read_index(self, ref: Ref | None, number: int) -> BaseIndex:
        if ref is None:
            return _NO_INDEX
        if self._index[0] == ref:
            return self._index[1]
        try:
            index = await read_index(self._store, ref)
        except Corrupt as problem:
            raise to_discrepancy(ProblemKind.INDEX, ref.path, problem, number) from problem
        for name, buckets in index.tables.items():
            for bucket, file in buckets.items():
                if tuple(map(str, file.buckets)) != (bucket,):
                    fault = f"has {file.path} in bucket {bucket} of {name}"
                    raise Discrepancy(ProblemKind.INDEX, ref.path, fault, number=number)
        self._index = (ref, index)
        if self._is_new(ref.path, ref, number):
            self._checked.files += 1
        return index

    async def _check_file(self, file: _NamedFile, number: int) -> None:
        if not self._is_new(file.path, file.refs, number):
            return
        tables = {name: self._table_of(file, name, number) for name in file.refs}
        first_ref = next(iter(file.refs.values()))
        raw = await self._read(first_ref, number)
        if not self._sound.issuperset(file.refs.values()):
            checked = await self._store.runtime.tasks.in_thread(
                lambda: check_content(tables, file.refs, raw)
            )
            if isinstance(checked, str):
                raise _file_discrepancy(first_ref, checked, number)
            self._sound.update(file.refs.values())
            if file.in_tail and self._domain == DOMAIN:
                for name, rows in checked.items():
                    self._tails[name, file.path] = rows
                    self._oldest[name, file.path] = pc.min(rows.column(COMMIT)).as_py()
        self._checked.files += 1
        self._checked.rows += sum(ref.rows for ref in file.refs.values())
        self._checked.bytes += first_ref.bytes
        self._progress.step()

    def _table_of(self, file: _NamedFile, name: str, number: int) -> StateTable:
        ref, table = file.refs[name], tables_of(self._domain).get(name)
        folder = folder_of(self._domain, COMBINED if ref.is_combined else name, ref.visibility)
        if table is None or not file.path.startswith(folder):
            raise _file_discrepancy(ref, f"is not in the folder of a known table {name}", number)
        return table

    async def _read(self, ref: FileRef, number: int) -> bytes:
        raw = await self._store.find(ref.path, size_bytes=ref.bytes)
        if raw is None:
            raise _file_discrepancy(ref, "is missing, and a manifest names it", number)
        if len(raw) != ref.bytes:
            raise _file_discrepancy(ref, f"has {len(raw)} bytes, not {ref.bytes}", number)
        if sha256_hex(raw) != ref.sha256:
            raise _file_discrepancy(ref, "does not have the bytes that its manifest names", number)
        return raw

    def _is_new(self, path: str, refs: Mapping[str, FileRef] | Ref, number: int) -> bool:
        """Whether an object was not checked before; `Discrepancy` if two manifests disagree about it."""
        earlier = self._checked_refs.get(path)
        if earlier is not None and earlier != refs:
            fault = "is named by two manifests that differ about it"
            raise Discrepancy(ProblemKind.FILE, path, fault, number=number)
        self._checked_refs[path] = refs
        return earlier is None


def _files(manifest: Manifest, index: BaseIndex) -> list[_NamedFile]:
    """Every file of a state. The tables in a combined file name it each, and it is checked once."""
    files: dict[str, _NamedFile] = {}
    for name, tail in manifest.tail.items():
        for ref in tail:
            files.setdefault(ref.path, _NamedFile(ref.path, in_tail=True)).refs[name] = ref
    bases = list(manifest.base.unbucketed.items())
    bases += [(name, ref) for name, each in index.tables.items() for ref in each.values()]
    for name, ref in bases:
        files.setdefault(ref.path, _NamedFile(ref.path, in_tail=False)).refs[name] = ref
    return list(files.values())


def _file_discrepancy(ref: FileRef, fault: str, number: int) -> Discrepancy:
    return Discrepancy(ProblemKind.FILE, ref.path, fault, number=number)


DROPPED = "dropped_at"


def check_content(
    tables: Mapping[str, StateTable], refs: Mapping[str, FileRef], raw: bytes
) -> dict[str, pa.Table] | str:
    """The rows of a file by table, or what is wrong with it."""
    try:
        stored = pq.read_table(io.BytesIO(raw), use_threads=False)
    except (pa.ArrowException, OSError, ValueError):
        return "is not a Parquet file"
    plain = [name for name, ref in refs.items() if not ref.is_combined]
    parts = dict.fromkeys(plain, stored) if plain else _parts_of_combined(refs, stored)
    if isinstance(parts, str):
        return parts
    if len(plain) > 1:
        return f"is not a combined file, and {len(plain)} tables name it"
    for name, rows in parts.items():
        fault = _fault_in_part(tables[name], refs[name], rows)
        if fault is not None:
            return fault
    return parts


def _parts_of_combined(names: Iterable[str], stored: pa.Table) -> dict[str, pa.Table] | str:
    """The rows of each table in a combined file, or what is wrong with the file."""
    if sorted(names) != sorted(stored.column_names):
        return f"has rows of {sorted(stored.column_names)}, and its manifest says {sorted(names)}"
    if not all(pa.types.is_struct(column.type) for column in stored.columns):
        return "has a column that is not the rows of a table"
    set_columns = reduce(pc.add, (pc.is_valid(each).cast(pa.int8()) for each in stored.columns))
    if pc.unique(set_columns).to_pylist() != [1]:
        return "has a row that is not of exactly one table"
    return {
        name: pa.Table.from_struct_array(stored.column(name).combine_chunks().drop_null())
        for name in stored.column_names
    }


def _fault_in_part(table: StateTable, ref: FileRef, rows: pa.Table) -> str | None:
    fault = _fault_in_schema(table, rows.schema)
    if fault is None and rows.num_rows == 0:
        fault = "has no rows"
    if fault is None:
        fault = _fault_in_rows(table, rows) or _fault_in_claims(table, ref, rows)
    return fault


def _fault_in_schema(table: StateTable, schema: pa.Schema) -> str | None:
    needed = {*table.key, *table.sort, *_stamps(table)}
    missing = sorted(needed - set(schema.names))
    if missing:
        return f"has no column {missing[0]}"
    for column in schema:
        if column.name not in table.schema.names:
            return f"has a column {column.name}, which {table.name} does not"
        expected_type = table.schema.field(column.name).type
        if column.type != expected_type:
            return f"has {column.name} as {column.type}, not as {expected_type}"
    return None


def _fault_in_rows(table: StateTable, rows: pa.Table) -> str | None:
    for name in (*table.key, *_stamps(table)):
        if rows.column(name).null_count:
            return f"has a row without {name}"
    if rows.group_by(list(table.key)).aggregate([]).num_rows != rows.num_rows:
        return "has two rows with one key"
    order = [(name, "ascending", "at_start") for name in (*table.sort, *table.key)]
    if pc.sort_indices(rows, sort_keys=order).to_pylist() != list(range(rows.num_rows)):
        return "is not sorted"
    return None


def _fault_in_claims(table: StateTable, ref: FileRef, rows: pa.Table) -> str | None:
    claims: Iterable[tuple[str, object, object]] = (
        ("rows", ref.rows, rows.num_rows),
        ("low", ref.low, _bound(table, rows, 0)),
        ("high", ref.high, _bound(table, rows, rows.num_rows - 1)),
        ("buckets", ref.buckets, tuple(sorted(set(table.buckets_of(rows))))),
        ("newest", ref.newest, _newest(rows)),
        ("dropped_from", ref.dropped_from, _dropped_from(rows)),
    )
    for name, claimed, actual in claims:
        if claimed != actual:
            return f"has {name} {actual!r}, and its manifest says {claimed!r}"
    return None


def _stamps(table: StateTable) -> tuple[str, ...]:
    """The columns that the compactor adds to every row: none in event domains."""
    return tuple(name for name in (COMMIT,) if name in table.schema.names)


def _newest(rows: pa.Table) -> int:
    if COMMIT not in rows.column_names:
        return -1
    newest: int = pc.max(rows.column(COMMIT)).as_py()
    return newest


def _bound(table: StateTable, rows: pa.Table, at: int) -> tuple[str, ...]:
    values = (rows.column(name)[at].as_py() for name in table.sort)
    return tuple("" if value is None else str(value) for value in values)


def _dropped_from(rows: pa.Table) -> datetime | None:
    if DROPPED not in rows.column_names:
        return None
    first: datetime | None = pc.min(rows.column(DROPPED)).as_py()
    return first
