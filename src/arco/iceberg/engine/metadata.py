"""A table's metadata: JSON as it stands in its file, never changed once made, unknown members kept.

What comes from `parse_metadata`, `new_table` and `apply_updates` is complete and sound: lists that old
writers leave out are there, and what refers to something finds it. The rest of the engine relies on that.
"""

import zlib
from typing import cast

import msgspec

from arco.core.errors import Invalid
from arco.core.json import Json, decode, encode
from arco.iceberg.engine.integrity import check_table
from arco.iceberg.engine.partition_spec import last_field_id, with_positions
from arco.iceberg.engine.shape import Object

Metadata = Object

MAIN = "main"
NO_SNAPSHOT = -1  # how metadata before version 3 say that there is no current snapshot

_GZIP = b"\x1f\x8b"
_MOST_BYTES = 512 * 2**20  # what a file may unpack to


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What the catalog itself wants to know of a table."""

    table_uuid: str
    location: str
    current_schema_id: int
    snapshot_id: int | None
    sequence_number: int
    format_version: int
    properties: dict[str, str]


def parse_metadata(raw: bytes) -> Metadata:
    """The metadata in a file, gzipped or not; `Invalid` if they are no sound table's."""
    found: Metadata = decode(unpacked(raw), dict)
    return complete_metadata(found)


def complete_metadata(found: Metadata) -> Metadata:
    """Decoded metadata with what their writer has left out; `Invalid` if they are no sound table's."""
    return check_table(_complete(found))


def encode_metadata(metadata: Metadata) -> bytes:
    """The bytes of a metadata file, not gzipped."""
    try:
        return encode(metadata)
    except RecursionError as problem:
        raise Invalid("the metadata are nested too deeply") from problem


def facts(metadata: Metadata) -> Facts:
    """The facts of sound metadata."""
    return Facts(
        table_uuid=cast("str", metadata["table-uuid"]),
        location=cast("str", metadata["location"]),
        current_schema_id=cast("int", metadata["current-schema-id"]),
        snapshot_id=current_snapshot_id(metadata),
        sequence_number=cast("int", metadata.get("last-sequence-number", 0)),
        format_version=cast("int", metadata["format-version"]),
        properties=cast("dict[str, str]", metadata["properties"]),
    )


def refs_only(metadata: Metadata) -> Metadata:
    """The metadata with no snapshots but those that a branch or tag names."""
    named = {ref["snapshot-id"] for ref in refs_of(metadata).values()}
    kept: list[Json] = [
        each for each in objects_of(metadata, "snapshots") if each["snapshot-id"] in named
    ]
    return {**metadata, "snapshots": kept}


def objects_of(metadata: Metadata, key: str) -> list[Object]:
    """A list of objects in sound metadata; empty if there is none."""
    found = cast("list[Object] | None", metadata.get(key))
    return [] if found is None else found


def refs_of(metadata: Metadata) -> dict[str, Object]:
    """Branches and tags by name."""
    return cast("dict[str, Object]", metadata["refs"])


def current_snapshot_id(metadata: Metadata) -> int | None:
    """The snapshot that a reader of the table sees; None if it holds nothing."""
    found = cast("int | None", metadata.get("current-snapshot-id"))
    return None if found == NO_SNAPSHOT else found


def unpacked(raw: bytes) -> bytes:
    """A metadata file as JSON, whether it was stored compressed or not."""
    if not raw.startswith(_GZIP):
        return raw
    gunzip = zlib.decompressobj(wbits=31)
    try:
        plain = gunzip.decompress(raw, _MOST_BYTES)
    except zlib.error as problem:
        raise Invalid("the metadata file is damaged: it cannot be unpacked") from problem
    if not gunzip.eof:
        raise Invalid("the metadata file is cut short, or too large")
    return plain


def _complete(found: Metadata) -> Metadata:
    """`found` with the members that early writers of version 1, and some others, leave out."""
    if found.get("format-version") == 1:
        found = _complete_v1(found)
    if found.get("refs") is None:
        current = current_snapshot_id(found)
        main: Json = {"snapshot-id": current, "type": "branch"}
        found = {**found, "refs": {} if current is None else {MAIN: main}}
    empty = ("snapshots", "snapshot-log", "metadata-log")
    lacking = {key: cast("Json", []) for key in empty if found.get(key) is None}
    if found.get("properties") is None:
        lacking["properties"] = {}
    return {**found, **lacking} if lacking else found


def _complete_v1(found: Metadata) -> Metadata:
    """Version 1 began with one schema and one spec, and no order."""
    schema, fields = found.get("schema"), found.get("partition-spec")
    if "schemas" not in found and isinstance(schema, dict):
        schema_id = schema.get("schema-id", 0)
        listed: Json = [{**schema, "schema-id": schema_id}]
        found = {**found, "schemas": listed, "current-schema-id": schema_id}
    if "partition-specs" not in found and isinstance(fields, list):
        only: Json = [{"spec-id": 0, "fields": fields}]
        found = {**found, "partition-specs": only, "default-spec-id": 0}
    if "sort-orders" not in found:
        unsorted: Json = [{"order-id": 0, "fields": []}]
        found = {**found, "sort-orders": unsorted, "default-sort-order-id": 0}
    specs = found.get("partition-specs")
    if isinstance(specs, list) and all(isinstance(each, dict) for each in specs):
        numbered = [with_positions(cast("Object", each)) for each in specs]
        found = {**found, "partition-specs": [*numbered]}
        if "last-partition-id" not in found:
            found["last-partition-id"] = last_field_id(numbered)
    return found
