"""Updates of a table itself: uuid, format version, location, properties and encryption keys.

Also the table properties that Iceberg gives a meaning.
"""

import binascii
import re
from collections.abc import Mapping

from arco.catalog.name import check_property_sizes
from arco.core.errors import Invalid
from arco.core.json import Json
from arco.iceberg.engine import shape
from arco.iceberg.engine.draft import TableDraft
from arco.iceberg.engine.metadata import NEWEST_VERSION, OLDEST_VERSION
from arco.iceberg.engine.schema import SchemaIndex
from arco.iceberg.engine.shape import Object

FORMAT_VERSION = "format-version"
PREVIOUS_VERSIONS = "write.metadata.previous-versions-max"

# Other members of the metadata hold these facts, so they are never stored as properties.
RESERVED = frozenset(
    {
        FORMAT_VERSION,
        "uuid",
        "snapshot-count",
        "current-snapshot-id",
        "current-snapshot-summary",
        "current-snapshot-timestamp-ms",
        "current-schema",
        "default-partition-spec",
        "default-sort-order",
    }
)

# Without it engines use gzip, as they still do for older tables.
NEW_TABLE = {"write.parquet.compression-codec": "zstd"}

_COUNTS = (
    "commit.retry.num-retries",
    "commit.retry.min-wait-ms",
    "commit.retry.max-wait-ms",
    "commit.retry.total-timeout-ms",
)
_METRICS_OF = "write.metadata.metrics.column."
_ENCRYPTION = frozenset({"encryption.key-id", "encryption.data-key-length"})
_PREVIOUS_VERSIONS_DEFAULT = 100

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_KEYS = "encryption-keys"


def read_number(properties: Mapping[str, str], key: str, default: int) -> int:
    """The integer under `key`."""
    text = properties.get(key)
    if text is None:
        return default
    digits = text.removeprefix("-").removeprefix("+")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
        raise Invalid(f"Table property {key} must have integer value")
    return int(text)


def previous_versions(properties: Mapping[str, str]) -> int:
    """The maximal length of a table's metadata log."""
    try:
        return max(1, read_number(properties, PREVIOUS_VERSIONS, _PREVIOUS_VERSIONS_DEFAULT))
    except Invalid:
        return _PREVIOUS_VERSIONS_DEFAULT  # set before it was checked; commits must still work


def check_new(properties: Mapping[str, str], index: SchemaIndex, format_version: int) -> None:
    """Refuse properties that are invalid for a new table."""
    for key in _COUNTS:
        if read_number(properties, key, 0) < 0:
            raise Invalid(f"Table property {key} must have non negative integer value")
    read_number(properties, PREVIOUS_VERSIONS, 1)
    for key in properties:
        column = key.removeprefix(_METRICS_OF)
        if column != key and index.by_name(column) is None:
            raise Invalid(
                f"Invalid metrics config, could not find column {column} from table prop {key}"
            )
    unfit = sorted(_ENCRYPTION & properties.keys())
    if unfit and format_version < 3:
        raise Invalid(f"Invalid properties for v{format_version}: {', '.join(unfit)}")


def assign_uuid(draft: TableDraft, update: Object) -> None:
    """Set the table's uuid."""
    uuid = shape.text(update, "uuid", "assign-uuid")
    if not _UUID.fullmatch(uuid):
        raise Invalid(f"uuid of assign-uuid is no UUID: {uuid}")
    if uuid != draft.top.get("table-uuid"):
        draft.put("table-uuid", uuid)


def read_version(update: Object) -> int:
    """The format version that an upgrade requests."""
    version = shape.integer(update, "format-version", "upgrade-format-version")
    if not OLDEST_VERSION <= version <= NEWEST_VERSION:
        raise Invalid(
            f"Cannot upgrade table to unsupported format version: v{version} "
            f"(supported: v{NEWEST_VERSION})"
        )
    return version


def upgrade_format_version(draft: TableDraft, update: Object) -> None:
    """Upgrade the format version; a downgrade is refused."""
    version = read_version(update)
    current = draft.format_version
    if version < current:
        raise Invalid(f"Cannot downgrade v{current} table to v{version}")
    if version == current:
        return
    draft.put("format-version", version)
    draft.top.setdefault("last-sequence-number", 0)
    if version >= 3:
        draft.top.setdefault("next-row-id", 0)
    if draft.snapshot_id is None:
        draft.set_current_snapshot(None)  # format versions write "none" differently


def set_location(draft: TableDraft, update: Object) -> None:
    """Set the location for new files."""
    location = strip_slashes(shape.text(update, "location", "set-location"))
    if not location:
        raise Invalid("location of set-location must not be empty")
    if location != draft.top.get("location"):
        draft.put("location", location)


def strip_slashes(location: str) -> str:
    """A location without trailing slashes, as metadata stores it."""
    while location.endswith("/") and not location.endswith("://"):
        location = location[:-1]
    return location


def set_properties(draft: TableDraft, update: Object) -> None:
    """Set properties; early clients send `updated` for `updates`."""
    key = "updates" if "updates" in update or "updated" not in update else "updated"
    updates = shape.texts(update, key, "set-properties")
    read_number(updates, PREVIOUS_VERSIONS, 1)
    changed = {name: text for name, text in updates.items() if draft.properties.get(name) != text}
    if changed:
        check_property_sizes({**draft.properties, **changed})
        draft.own_map("properties").update(changed)


def remove_properties(draft: TableDraft, update: Object) -> None:
    """Remove properties; missing ones are ignored."""
    key = "removals" if "removals" in update or "removed" not in update else "removed"
    names = shape.array(update, key, "remove-properties")
    removals = {shape.as_text(each, f"each of {key} of remove-properties") for each in names}
    for name in removals & draft.properties.keys():
        del draft.own_map("properties")[name]


def add_encryption_key(draft: TableDraft, update: Object) -> None:
    """Add an encrypted key; an existing one with the same id stays."""
    label = "the encryption key"
    key = shape.obj(update, "encryption-key", "add-encryption-key")
    key = shape.without_nulls(key, "encrypted-by-id", "properties")
    key_id = shape.text(key, "key-id", label)
    shape.maybe_text(key, "encrypted-by-id", label)
    if "properties" in key:
        shape.texts(key, "properties", label)
    try:
        binascii.a2b_base64(shape.text(key, "encrypted-key-metadata", label), strict_mode=True)
    except ValueError as problem:
        raise Invalid("encrypted-key-metadata of the encryption key is not base64") from problem
    if draft.format_version < 3:
        raise Invalid(
            f"Encryption keys are not supported until v3: this is a v{draft.format_version}"
        )
    if all(each["key-id"] != key_id for each in draft.objects(_KEYS)):
        draft.own(_KEYS).append(key)


def remove_encryption_key(draft: TableDraft, update: Object) -> None:
    """Remove an encryption key."""
    key_id = shape.text(update, "key-id", "remove-encryption-key")
    keys = draft.objects(_KEYS)
    kept_keys: list[Json] = [each for each in keys if each["key-id"] != key_id]
    if len(kept_keys) == len(keys):
        return
    draft.put(_KEYS, kept_keys)
    if not kept_keys:
        del draft.top[_KEYS]
