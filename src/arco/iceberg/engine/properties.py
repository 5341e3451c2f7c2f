"""Properties of tables that Iceberg gives a meaning, and what their values must be."""

from collections.abc import Mapping

from arco.core.errors import Invalid
from arco.iceberg.engine.schema import SchemaIndex

FORMAT_VERSION = "format-version"
PREVIOUS_VERSIONS = "write.metadata.previous-versions-max"

# They say in another place of the metadata what they would say here, so they are never stored.
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

# Engines would fall back to gzip, which is kept for tables that are older than this choice.
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


def read_number(properties: Mapping[str, str], key: str, default: int) -> int:
    """The whole number under `key`."""
    text = properties.get(key)
    if text is None:
        return default
    digits = text.removeprefix("-").removeprefix("+")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
        raise Invalid(f"Table property {key} must have integer value")
    return int(text)


def previous_versions(properties: Mapping[str, str]) -> int:
    """How many metadata files the log of a table names."""
    try:
        return max(1, read_number(properties, PREVIOUS_VERSIONS, _PREVIOUS_VERSIONS_DEFAULT))
    except Invalid:
        return _PREVIOUS_VERSIONS_DEFAULT  # set before anybody checked it; commits must go on


def check_new(properties: Mapping[str, str], index: SchemaIndex, format_version: int) -> None:
    """Refuse properties that a new table cannot have."""
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
