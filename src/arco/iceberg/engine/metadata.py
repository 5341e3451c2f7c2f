"""A table's metadata: the JSON of its file, never changed once built, unknown members kept.

Metadata from `complete_metadata`, `new_table` and `apply_updates` is complete and valid: lists that old
writers omit are present, and every reference resolves. The rest of the engine relies on that. A file
may come from anywhere, since a table can be registered with one, so everything is checked here once.
"""

import zlib
from collections.abc import Iterable
from typing import cast

from arco.core.errors import Invalid
from arco.core.json import Json, encode
from arco.iceberg.engine import shape
from arco.iceberg.engine.partition_spec import last_field_id, read_spec, with_positions
from arco.iceberg.engine.schema import read_schema
from arco.iceberg.engine.shape import Object
from arco.iceberg.engine.sort_order import read_order

NEWEST_VERSION = 3
OLDEST_VERSION = 1

_LABEL = "the metadata"
_FAR = 2**63 - 1

Metadata = Object
MAIN = "main"
NO_SNAPSHOT = -1  # "no current snapshot" before format version 3
_GZIP = b"\x1f\x8b"
_MAX_BYTES = 512 * 2**20  # of a decompressed file


def check_table(metadata: Object) -> Object:
    """`metadata` itself if it is valid, else `Invalid`."""
    version = shape.integer(metadata, "format-version", _LABEL)
    if not OLDEST_VERSION <= version <= NEWEST_VERSION:
        raise Invalid(f"Cannot read unsupported version {version}")
    shape.text(metadata, "table-uuid", _LABEL)
    shape.text(metadata, "location", _LABEL)
    shape.long(metadata, "last-updated-ms", _LABEL)
    shape.integer(metadata, "last-column-id", _LABEL)
    shape.integer(metadata, "last-partition-id", _LABEL)
    if version > 1:
        shape.long(metadata, "last-sequence-number", _LABEL)
    if version > 2:
        shape.long(metadata, "next-row-id", _LABEL)
    shape.texts(metadata, "properties", _LABEL)
    _check_layout(metadata)
    _check_snapshots(metadata)
    _check_lists(metadata)
    return metadata


def _check_layout(metadata: Object) -> None:
    schemas = shape.objects(metadata, "schemas", _LABEL)
    for schema in schemas:
        shape.array(schema, "fields", "a schema of the metadata")
        if schema.get("schema-id") == metadata.get("current-schema-id"):
            read_schema(schema)  # the others are history and are not read
    specs = shape.objects(metadata, "partition-specs", _LABEL)
    for spec in specs:
        read_spec(spec)
    orders = shape.objects(metadata, "sort-orders", _LABEL)
    for order in orders:
        read_order(order)
    _find(metadata, "current-schema-id", _ids(schemas, "schema-id"))
    _find(metadata, "default-spec-id", _ids(specs, "spec-id"))
    _find(metadata, "default-sort-order-id", _ids(orders, "order-id"))


def _ids(items: Iterable[Object], key: str) -> set[int]:
    return {shape.integer(each, key, f"each {key[:-3]} of the metadata") for each in items}


def _find(metadata: Object, key: str, ids: set[int]) -> None:
    current_id = shape.integer(metadata, key, _LABEL)
    if current_id not in ids:
        raise Invalid(f"{key} of {_LABEL} is {current_id}, which is not there")


def _check_snapshots(metadata: Object) -> None:
    snapshots = shape.array(metadata, "snapshots", _LABEL)
    _check_moments(snapshots, "a snapshot of the metadata")
    ids = {cast("Object", each)["snapshot-id"] for each in snapshots}
    if len(ids) != len(snapshots):
        raise Invalid("two snapshots of the metadata have the same id")
    current = shape.maybe_long(metadata, "current-snapshot-id", _LABEL)
    if current is not None and current != -1 and current not in ids:
        raise Invalid("Invalid table metadata: Cannot find current version")
    _check_refs(shape.obj(metadata, "refs", _LABEL), ids, current)


def _check_moments(items: list[Json], label: str) -> None:
    """Check that each item has a snapshot id and a time; fast, since there may be very many."""
    for item in items:
        if type(item) is dict:
            snapshot_id, time_ms = item.get("snapshot-id"), item.get("timestamp-ms")
            if (
                type(snapshot_id) is int
                and type(time_ms) is int
                and -_FAR < snapshot_id < _FAR > time_ms > 0
            ):
                continue
        entry = shape.as_object(item, label)  # raises with the reason if the item is invalid
        shape.long(entry, "snapshot-id", label)
        shape.long(entry, "timestamp-ms", label)


def _check_refs(refs: Object, ids: set[Json], current: int | None) -> None:
    for name, value in refs.items():
        ref = shape.as_object(value, f"ref {name}")
        shape.text(ref, "type", f"ref {name}")
        snapshot = shape.long(ref, "snapshot-id", f"ref {name}")
        if snapshot not in ids:
            raise Invalid(
                f"Snapshot for reference {name} does not exist in the existing snapshots list"
            )
        if name == "main" and snapshot != current:
            raise Invalid(
                f"Current snapshot ID does not match main branch ({current} != {snapshot})"
            )


def _check_lists(metadata: Object) -> None:
    _check_moments(shape.array(metadata, "snapshot-log", _LABEL), "an entry of the snapshot log")
    shape.objects(metadata, "metadata-log", _LABEL)
    for key in ("statistics", "partition-statistics"):
        for each in _optional(metadata, key):
            shape.long(shape.as_object(each, key), "snapshot-id", key)
    for each in _optional(metadata, "encryption-keys"):
        shape.text(shape.as_object(each, "an encryption key"), "key-id", "an encryption key")


def _optional(metadata: Object, key: str) -> list[Json]:
    return [] if metadata.get(key) is None else shape.array(metadata, key, _LABEL)


def complete_metadata(metadata: Metadata) -> Metadata:
    """Decoded metadata with omitted members added; `Invalid` if it is not a valid table's."""
    return check_table(_complete(metadata))


def encode_metadata(metadata: Metadata) -> bytes:
    """The bytes of a metadata file, not gzipped."""
    try:
        return encode(metadata)
    except RecursionError as problem:
        raise Invalid("the metadata are nested too deeply") from problem


def refs_only(metadata: Metadata) -> Metadata:
    """The metadata with only the snapshots that a branch or tag names."""
    named_ids = {ref["snapshot-id"] for ref in refs_of(metadata).values()}
    kept_snapshots: list[Json] = [
        each for each in objects_of(metadata, "snapshots") if each["snapshot-id"] in named_ids
    ]
    return {**metadata, "snapshots": kept_snapshots}


def objects_of(metadata: Metadata, key: str) -> list[Object]:
    """A list of objects in valid metadata; empty if it is missing."""
    objects = cast("list[Object] | None", metadata.get(key))
    return [] if objects is None else objects


def refs_of(metadata: Metadata) -> dict[str, Object]:
    """Branches and tags by name."""
    return cast("dict[str, Object]", metadata["refs"])


def current_snapshot_id(metadata: Metadata) -> int | None:
    """The current snapshot; None for an empty table."""
    snapshot_id = cast("int | None", metadata.get("current-snapshot-id"))
    return None if snapshot_id == NO_SNAPSHOT else snapshot_id


def decompress(raw: bytes) -> bytes:
    """The JSON of a metadata file, which may be gzipped."""
    if not raw.startswith(_GZIP):
        return raw
    gunzip = zlib.decompressobj(wbits=31)
    try:
        plain = gunzip.decompress(raw, _MAX_BYTES)
    except zlib.error as problem:
        raise Invalid("the metadata file is damaged: it cannot be unpacked") from problem
    if not gunzip.eof:
        raise Invalid("the metadata file is cut short, or too large")
    return plain


def _complete(metadata: Metadata) -> Metadata:
    """`metadata` with the members that writers of format version 1, and some others, omit."""
    if metadata.get("format-version") == 1:
        metadata = _complete_v1(metadata)
    if metadata.get("refs") is None:
        current = current_snapshot_id(metadata)
        main: Json = {"snapshot-id": current, "type": "branch"}
        metadata = {**metadata, "refs": {} if current is None else {MAIN: main}}
    empty = ("snapshots", "snapshot-log", "metadata-log")
    lacking = {key: cast("Json", []) for key in empty if metadata.get(key) is None}
    if metadata.get("properties") is None:
        lacking["properties"] = {}
    return {**metadata, **lacking} if lacking else metadata


def _complete_v1(metadata: Metadata) -> Metadata:
    """Early metadata of format version 1 has one schema, one spec and no sort order."""
    schema, fields = metadata.get("schema"), metadata.get("partition-spec")
    if "schemas" not in metadata and isinstance(schema, dict):
        schema_id = schema.get("schema-id", 0)
        schemas: Json = [{**schema, "schema-id": schema_id}]
        metadata = {**metadata, "schemas": schemas, "current-schema-id": schema_id}
    if "partition-specs" not in metadata and isinstance(fields, list):
        only: Json = [{"spec-id": 0, "fields": fields}]
        metadata = {**metadata, "partition-specs": only, "default-spec-id": 0}
    if "sort-orders" not in metadata:
        unsorted: Json = [{"order-id": 0, "fields": []}]
        metadata = {**metadata, "sort-orders": unsorted, "default-sort-order-id": 0}
    specs = metadata.get("partition-specs")
    if isinstance(specs, list) and all(isinstance(each, dict) for each in specs):
        numbered = [with_positions(cast("Object", each)) for each in specs]
        metadata = {**metadata, "partition-specs": [*numbered]}
        if "last-partition-id" not in metadata:
            metadata["last-partition-id"] = last_field_id(numbered)
    return metadata


def current_schema(metadata: Metadata) -> dict[str, Json]:
    """The current schema of a table, or the schema of a view's current version."""
    current_id = metadata.get("current-schema-id")
    if "view-uuid" in metadata:
        current = metadata.get("current-version-id")
        versions = _dicts(metadata.get("versions"))
        current_id = next(
            (v.get("schema-id") for v in versions if v.get("version-id") == current), None
        )
    for schema in _dicts(metadata.get("schemas")):
        if schema.get("schema-id") == current_id:
            return schema
    only = metadata.get("schema")  # format version 1 may have only this one
    return only if isinstance(only, dict) else {"type": "struct", "fields": []}


def properties_of(metadata: Metadata) -> dict[str, str]:
    """The properties of a table or view."""
    properties = metadata.get("properties")
    return {} if not isinstance(properties, dict) else {k: str(v) for k, v in properties.items()}


def logged_files(metadata: Metadata) -> set[str]:
    """The earlier metadata files that a table's log names."""
    return {str(each.get("metadata-file")) for each in _dicts(metadata.get("metadata-log"))}


def _dicts(value: Json) -> list[dict[str, Json]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
