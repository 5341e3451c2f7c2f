"""Versions of a table's data, by partition, so that a planner can find out which partitions changed.

The version of a table is its current snapshot. The version of a partition is a digest of the paths of
its live files, data and deletes alike: files never change, so equal paths are equal data. Manifests
never change either, so each is read once. For a table with too many files, or whose partitions are not
values of columns, there is only the version of the table.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from io import BytesIO
from typing import Any
from uuid import UUID

import fastavro

from arco.core.errors import NotFound, Unavailable
from arco.core.json import Json
from arco.core.lru_cache import LruCache
from arco.events.partition_key import format_partition_key
from arco.iceberg.context import IcebergContext
from arco.iceberg.engine.metadata import Metadata, current_schema, current_snapshot_id, objects_of
from arco.iceberg.publication import attempt_snapshots

ValueFormat = Callable[[object], str]

NULL = "null"  # as Iceberg writes it into paths

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

MAX_FILES = 200_000
_REMEMBERED_FILES = 400_000
_REMEMBERED_TABLES = 1_000
_PARALLEL_READS = 8
_DELETED = 2  # the status of a manifest entry for a deleted file
Row = dict[str, Any]


def value_format(transform: str) -> ValueFormat | None:
    """How values of a transform are printed; None if they do not identify column values."""
    return _WRITTEN.get(transform)


def _value(value: object) -> str:
    if value is None:
        return NULL
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, UUID):
        return str(value)
    return str(value)


def _day(value: object) -> str:
    if isinstance(value, int):  # days since 1970
        return (_EPOCH + timedelta(days=value)).date().isoformat()
    return _value(value)


def _hour(value: object) -> str:
    if isinstance(value, int):
        return f"{_EPOCH + timedelta(hours=value):%Y-%m-%dT%H}"
    return _value(value)


def _month(value: object) -> str:
    if isinstance(value, int):
        year, month = divmod(value, 12)
        return f"{1970 + year:04d}-{month + 1:02d}"
    return _value(value)


_WRITTEN: dict[str, ValueFormat] = {
    "identity": _value,
    "day": _day,
    "date": _day,
    "hour": _hour,
    "month": _month,
}


@dataclass(frozen=True)
class PartitionField:
    """A field of a partition spec: its source column, and how its values are printed."""

    column: str
    text: ValueFormat


@dataclass(frozen=True)
class _LiveFiles:
    """The live files of one manifest, by partition."""

    files: dict[str, tuple[str, ...]]

    @property
    def count(self) -> int:
        return sum(len(each) for each in self.files.values())


@dataclass(frozen=True)
class AddedFile:
    """A live file, and the snapshot that added it."""

    partition: str
    path: str
    snapshot_id: int


class IcebergVersions:
    """The versions of Iceberg tables and their partitions, by table id."""

    def __init__(self, context: IcebergContext, *, most_files: int = MAX_FILES) -> None:
        self._context = context
        self._most_files = most_files
        self._live_files_by_manifest = LruCache[str, _LiveFiles](
            _REMEMBERED_FILES, lambda live_files: live_files.count, keep_newest=True
        )
        self._digests_by_table = LruCache[str, tuple[str, dict[str, str]]](_REMEMBERED_TABLES)

    async def versions(self, table_id: str) -> tuple[str | None, dict[str, str]]:
        """The current snapshot, and a digest for each partition; none for an empty table.

        One round trip in a warm process; for a changed table one more for its manifest list and one for
        every eight new manifests.
        """
        location, metadata = await self._metadata(table_id)
        current = current_snapshot_id(metadata)
        if current is None:
            return None, {}
        cached = self._digests_by_table.get(table_id)
        if cached is None or cached[0] != location:
            cached = location, await self._partitions(metadata, current)
            self._digests_by_table.put(table_id, cached)
        return str(current), dict(cached[1])

    async def files_without_attempt(self, table_id: str) -> list[AddedFile]:
        """The live files, data and deletes alike, whose snapshot is not known to publish an attempt (P35).

        An expired snapshot is unknown. The list is empty for a table with too many files, or whose
        partitions are not values of columns.
        """
        _, metadata = await self._metadata(table_id)
        current = current_snapshot_id(metadata)
        manifests = None if current is None else await self._manifests(metadata, current)
        attempts, specs = attempt_snapshots(metadata), _specs(metadata)
        files: list[AddedFile] = []
        for each in manifests or ():
            spec = specs.get(_spec_id(each))
            # Most manifests belong to one snapshot, and that to an attempt.
            if spec is None or (_adder(each) in attempts and not _existing(each)):
                continue
            records = await self._records(str(each["manifest_path"]))
            files += (
                f for f in _added(records, _adder(each), spec) if f.snapshot_id not in attempts
            )
        return files

    async def _metadata(self, table_id: str) -> tuple[str, Metadata]:
        """The location and the metadata of a table."""
        table_head = await self._context.heads.of(table_id)
        if table_head.location is None:
            raise NotFound(f"there is no table {table_id}")
        return table_head.location, (await self._context.load(table_head.location)).metadata

    async def _partitions(self, metadata: Metadata, snapshot_id: int) -> dict[str, str]:
        """A digest for each partition; empty if partitions are not values of columns."""
        manifests, specs = await self._manifests(metadata, snapshot_id), _specs(metadata)
        if manifests is None or any(_spec_id(each) not in specs for each in manifests):
            return {}
        live = await self._live(manifests, specs)
        return await self._context.runtime.tasks.in_thread(lambda: _digests(live))

    async def _manifests(self, metadata: Metadata, snapshot_id: int) -> list[Row] | None:
        """The manifests of a snapshot; None if they have too many files."""
        snapshots = objects_of(metadata, "snapshots")
        manifest_list = next(
            (s.get("manifest-list") for s in snapshots if s.get("snapshot-id") == snapshot_id), None
        )
        if not isinstance(manifest_list, str):  # format version 1 may have none
            return None
        manifests = await self._records(manifest_list)
        counts = [_count(each) for each in manifests]
        return manifests if sum(counts) <= self._most_files else None

    async def _live(
        self, manifests: Sequence[Row], specs: dict[int, Sequence[PartitionField]]
    ) -> list[_LiveFiles]:
        live_files: list[_LiveFiles] = []
        for start in range(0, len(manifests), _PARALLEL_READS):
            some = manifests[start : start + _PARALLEL_READS]
            work = (self._manifest(str(e["manifest_path"]), specs[_spec_id(e)]) for e in some)
            live_files += await self._context.runtime.tasks.gather(*work)
        return live_files

    async def _manifest(self, path: str, spec: Sequence[PartitionField]) -> _LiveFiles:
        cached = self._live_files_by_manifest.get(path)
        if cached is not None:
            return cached
        records = await self._records(path)
        live_files = await self._context.runtime.tasks.in_thread(lambda: _live(records, spec))
        self._live_files_by_manifest.put(path, live_files)
        return live_files

    async def _records(self, location: str) -> list[Row]:
        try:
            raw = await self._context.files.read(location)
        except NotFound as problem:  # perhaps its snapshot has been expired meanwhile
            raise Unavailable(
                f"{location} was deleted, perhaps with an expired snapshot; retry"
            ) from problem
        return await self._context.runtime.tasks.in_thread(lambda: _avro(raw, location))


def _avro(raw: bytes, location: str) -> list[Row]:
    try:
        return [each for each in fastavro.reader(BytesIO(raw)) if isinstance(each, dict)]
    except Exception as problem:  # fastavro raises many types on bytes from elsewhere
        raise Unavailable(f"{location} is not an Avro file that can be read") from problem


def _live(entries: Iterable[Row], spec: Sequence[PartitionField]) -> _LiveFiles:
    files: dict[str, list[str]] = defaultdict(list)
    for each in _added(entries, 0, spec):
        files[each.partition].append(each.path)
    return _LiveFiles({key: tuple(paths) for key, paths in files.items()})


def _added(
    entries: Iterable[Row], adder: int, spec: Sequence[PartitionField]
) -> Iterator[AddedFile]:
    """The live files of a manifest; `adder` is the snapshot of those that name none."""
    for entry in entries:
        if entry.get("status") == _DELETED:
            continue
        file = entry["data_file"]
        values = list((file.get("partition") or {}).values())
        key = format_partition_key(
            {f.column: f.text(v) for f, v in zip(spec, values, strict=False)}
        )
        added_by = entry.get("snapshot_id")
        yield AddedFile(key, str(file["file_path"]), adder if added_by is None else int(added_by))


def _digests(live: Iterable[_LiveFiles]) -> dict[str, str]:
    files: dict[str, list[str]] = defaultdict(list)
    for each in live:
        for key, paths in each.files.items():
            files[key] += paths
    return {key: _digest(paths) for key, paths in files.items()}


def _digest(paths: Iterable[str]) -> str:
    return hashlib.sha256("".join(f"{path}\n" for path in sorted(paths)).encode()).hexdigest()


def _specs(metadata: Metadata) -> dict[int, Sequence[PartitionField]]:
    """The partition specs whose partitions are values of columns, by id."""
    names = {each.get("id"): str(each.get("name")) for each in _fields(current_schema(metadata))}
    specs: dict[int, Sequence[PartitionField]] = {}
    for spec in objects_of(metadata, "partition-specs"):
        fields = [_field(each, names) for each in _fields(spec)]
        known_fields = [each for each in fields if each is not None]
        if known_fields and len(known_fields) == len(fields):
            specs[int(str(spec["spec-id"]))] = known_fields
    return specs


def _field(field: dict[str, Json], names: dict[Json, str]) -> PartitionField | None:
    text, column = value_format(str(field.get("transform"))), names.get(field.get("source-id"))
    return None if text is None or column is None else PartitionField(column, text)


def _fields(holder: dict[str, Json]) -> list[dict[str, Json]]:
    fields = holder.get("fields")
    return [e for e in fields if isinstance(e, dict)] if isinstance(fields, list) else []


def _adder(manifest: Row) -> int:
    """The snapshot that added a manifest."""
    return int(manifest.get("added_snapshot_id") or 0)


def _existing(manifest: Row) -> int:
    """How many files of a manifest were added by older snapshots, if it has the count."""
    older = manifest.get("existing_data_files_count")
    count = manifest.get("existing_files_count", older)
    return 1 if count is None else int(count)


def _spec_id(manifest: Row) -> int:
    return int(manifest.get("partition_spec_id") or 0)


def _count(manifest: Row) -> int:
    """How many files a manifest has; format version 1 may lack the count."""
    names = ("added_files_count", "existing_files_count")
    older = ("added_data_files_count", "existing_data_files_count")
    return sum(
        int(manifest.get(a) or manifest.get(b) or 0) for a, b in zip(names, older, strict=True)
    )
