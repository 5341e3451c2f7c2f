"""Whether a table's metadata are sound: every member of its type, and nothing that refers to nothing.

A file may come from anywhere (a table is registered with one), and no later step looks twice. What is
wrong here is also what other readers of the table would stumble over.
"""

from collections.abc import Iterable
from typing import cast

from arco.core.errors import Invalid
from arco.core.json import Json
from arco.iceberg.engine import shape
from arco.iceberg.engine.partition_spec import read_spec
from arco.iceberg.engine.schema import read_schema
from arco.iceberg.engine.shape import Object
from arco.iceberg.engine.sort_order import read_order

NEWEST_VERSION = 3
OLDEST_VERSION = 1

_WHAT = "the metadata"
_FAR = 2**63 - 1


def check_table(metadata: Object) -> Object:
    """`metadata` themselves, if they are sound."""
    version = shape.integer(metadata, "format-version", _WHAT)
    if not OLDEST_VERSION <= version <= NEWEST_VERSION:
        raise Invalid(f"Cannot read unsupported version {version}")
    shape.text(metadata, "table-uuid", _WHAT)
    shape.text(metadata, "location", _WHAT)
    shape.long(metadata, "last-updated-ms", _WHAT)
    shape.integer(metadata, "last-column-id", _WHAT)
    shape.integer(metadata, "last-partition-id", _WHAT)
    if version > 1:
        shape.long(metadata, "last-sequence-number", _WHAT)
    if version > 2:
        shape.long(metadata, "next-row-id", _WHAT)
    shape.texts(metadata, "properties", _WHAT)
    _check_layout(metadata)
    _check_snapshots(metadata)
    _check_lists(metadata)
    return metadata


def _check_layout(metadata: Object) -> None:
    schemas = shape.objects(metadata, "schemas", _WHAT)
    for schema in schemas:
        shape.array(schema, "fields", "a schema of the metadata")
        if schema.get("schema-id") == metadata.get("current-schema-id"):
            read_schema(schema)  # the others are history, and nobody looks into them
    specs = shape.objects(metadata, "partition-specs", _WHAT)
    for spec in specs:
        read_spec(spec)
    orders = shape.objects(metadata, "sort-orders", _WHAT)
    for order in orders:
        read_order(order)
    _find(metadata, "current-schema-id", _ids(schemas, "schema-id"))
    _find(metadata, "default-spec-id", _ids(specs, "spec-id"))
    _find(metadata, "default-sort-order-id", _ids(orders, "order-id"))


def _ids(found: Iterable[Object], key: str) -> set[int]:
    return {shape.integer(each, key, f"each {key[:-3]} of the metadata") for each in found}


def _find(metadata: Object, key: str, ids: set[int]) -> None:
    wanted = shape.integer(metadata, key, _WHAT)
    if wanted not in ids:
        raise Invalid(f"{key} of {_WHAT} is {wanted}, which is not there")


def _check_snapshots(metadata: Object) -> None:
    snapshots = shape.array(metadata, "snapshots", _WHAT)
    _check_moments(snapshots, "a snapshot of the metadata")
    ids = {cast("Object", each)["snapshot-id"] for each in snapshots}
    if len(ids) != len(snapshots):
        raise Invalid("two snapshots of the metadata have the same id")
    current = shape.maybe_long(metadata, "current-snapshot-id", _WHAT)
    if current is not None and current != -1 and current not in ids:
        raise Invalid("Invalid table metadata: Cannot find current version")
    _check_refs(shape.obj(metadata, "refs", _WHAT), ids, current)


def _check_moments(items: list[Json], what: str) -> None:
    """Each of `items` has a snapshot id and a time; quick, since there may be very many."""
    for item in items:
        if type(item) is dict:
            found, time_ms = item.get("snapshot-id"), item.get("timestamp-ms")
            if type(found) is int and type(time_ms) is int and -_FAR < found < _FAR > time_ms > 0:
                continue
        entry = shape.as_object(item, what)  # says what is wrong, if anything is
        shape.long(entry, "snapshot-id", what)
        shape.long(entry, "timestamp-ms", what)


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
    _check_moments(shape.array(metadata, "snapshot-log", _WHAT), "an entry of the snapshot log")
    shape.objects(metadata, "metadata-log", _WHAT)
    for key in ("statistics", "partition-statistics"):
        for each in _optional(metadata, key):
            shape.long(shape.as_object(each, key), "snapshot-id", key)
    for each in _optional(metadata, "encryption-keys"):
        shape.text(shape.as_object(each, "an encryption key"), "key-id", "an encryption key")


def _optional(metadata: Object, key: str) -> list[Json]:
    return [] if metadata.get(key) is None else shape.array(metadata, key, _WHAT)
