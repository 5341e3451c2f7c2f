"""Metadata, requests and updates that the tests of the metadata engine begin with."""

from typing import Any

from arco.core.json import Json, decode
from arco.iceberg.engine.metadata import Metadata, complete_metadata, decompress
from arco.iceberg.engine.new_table import new_table
from arco.iceberg.engine.update import apply_updates
from arco.iceberg.wire import CreateTableRequest

UUID = "32a7a133-13be-41e7-951f-cb4455d6b92e"
OTHER_UUID = "45a94e48-f131-412b-aa5a-06441a1b2051"
LOCATION = "s3://bucket/warehouse/orders"
CREATED_MS = 1_700_000_000_000


def parse_metadata(raw: bytes) -> Metadata:
    """The metadata in a file, gzipped or not."""
    return complete_metadata(decode(decompress(raw), dict))


def column(field_id: int, name: str, kind: Json = "long", /, **more: Any) -> dict[str, Json]:
    return {"id": field_id, "name": name, "required": False, "type": kind, **more}


def struct(*fields: dict[str, Json], **more: Any) -> dict[str, Json]:
    return {"type": "struct", "fields": [*fields], **more}


def list_of(element_id: int, element: Json, *, required: bool = False) -> dict[str, Json]:
    return {
        "type": "list",
        "element-id": element_id,
        "element": element,
        "element-required": required,
    }


def map_of(key_id: int, key: Json, value_id: int, value: Json) -> dict[str, Json]:
    return {
        "type": "map",
        "key-id": key_id,
        "key": key,
        "value-id": value_id,
        "value": value,
        "value-required": False,
    }


ORDERS = struct(
    column(1, "id", required=True),
    column(2, "placed_at", "timestamptz"),
    column(3, "country", "string"),
)


def partition(
    source_id: int, name: str, transform: str = "identity", /, **more: Any
) -> dict[str, Json]:
    return {"source-id": source_id, "name": name, "transform": transform, **more}


def spec(*fields: dict[str, Json], **more: Any) -> dict[str, Json]:
    return {"fields": [*fields], **more}


def sort(source_id: int, transform: str = "identity", direction: str = "asc") -> dict[str, Json]:
    nulls = "nulls-first" if direction == "asc" else "nulls-last"
    return {
        "source-id": source_id,
        "transform": transform,
        "direction": direction,
        "null-order": nulls,
    }


def order(*fields: dict[str, Json], **more: Any) -> dict[str, Json]:
    return {"fields": [*fields], **more}


def request(schema: dict[str, Json] = ORDERS, **more: Any) -> CreateTableRequest:
    return CreateTableRequest(name="orders", schema=schema, **more)


def table(
    version: int = 2,
    schema: dict[str, Json] = ORDERS,
    properties: dict[str, str] | None = None,
    **more: Any,
) -> Metadata:
    properties_with_version = {"format-version": str(version), **(properties or {})}
    return new_table(
        request(schema, properties=properties_with_version, **more),
        table_uuid=UUID,
        location=LOCATION,
        now_ms=CREATED_MS,
    )


def apply(
    base: Metadata | None, *updates: Json, now_ms: int = CREATED_MS + 1, file: str | None = None
) -> Metadata:
    return apply_updates(base, updates, now_ms=now_ms, previous_location=file)


def update(action: str, /, **members: Any) -> dict[str, Json]:
    return {"action": action, **{key.replace("_", "-"): value for key, value in members.items()}}


def snapshot(number: int, parent: int | None = None, /, **more: Any) -> dict[str, Json]:
    fields: dict[str, Json] = {
        "snapshot-id": number,
        "sequence-number": number,
        "timestamp-ms": CREATED_MS + number,
        "manifest-list": f"{LOCATION}/metadata/snap-{number}.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
        **more,
    }
    if parent is not None:
        fields["parent-snapshot-id"] = parent
    return fields


def add(number: int, parent: int | None = None, /, **more: Any) -> dict[str, Json]:
    return update("add-snapshot", snapshot=snapshot(number, parent, **more))


def point(
    snapshot_id: int, ref: str = "main", kind: str = "branch", /, **more: Any
) -> dict[str, Json]:
    return update("set-snapshot-ref", ref_name=ref, type=kind, snapshot_id=snapshot_id, **more)


def append(base: Metadata, *numbers: int) -> Metadata:
    """`base` after one commit for each of `numbers`, the last of which readers see."""
    for number in numbers:
        parent = base["current-snapshot-id"]
        parent_id = parent if isinstance(parent, int) and parent != -1 else None
        base = apply(base, add(number, parent_id), point(number), now_ms=CREATED_MS + number)
    return base


def create_updates(schema: dict[str, Json] = ORDERS, version: int = 2) -> list[Json]:
    """What clients send to end a staged create."""
    return [
        update("assign-uuid", uuid=UUID),
        update("upgrade-format-version", format_version=version),
        update("add-schema", schema={**schema, "schema-id": 0}, last_column_id=3),
        update("set-current-schema", schema_id=-1),
        update("add-spec", spec=spec(**{"spec-id": 0})),
        update("set-default-spec", spec_id=-1),
        update("add-sort-order", sort_order=order(**{"order-id": 0})),
        update("set-default-sort-order", sort_order_id=-1),
        update("set-location", location=LOCATION),
        update("set-properties", updates={"owner": "ada"}),
    ]
