"""Partition keys from the text that Spark and Iceberg print for the partitions of a scan.

Asking the JVM for each value would take thousands of calls. Ambiguous text, such as a comma within one of
several values, or the string `null` beside a null, is not guessed at: then no partitions are known.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta

from arco.events.partition_key import format_partition_key, parse_partition_key

MAX_PARTITIONS = 10_000

NULL = "__HIVE_DEFAULT_PARTITION__"

_EPOCH = date(1970, 1, 1)
_LISTED = re.compile(r"ListingPartition\(\[(.*)\],\d+,", re.MULTILINE)
_ICEBERG = re.compile(r"partition_data=PartitionData\{(.*?)\}, residual=")
_FIELD = re.compile(r"\d+: (.+?): (?:optional|required) (\w+)")
_TRANSFORM = re.compile(r"^\s*\d+: (.+?): (\w+)", re.MULTILINE)
_FILE = re.compile(r"\.(parquet|orc|avro|csv|jsonl?|txt|xml)(\.\w+)?$")
_IN_PATH = re.compile(r"^[^=/]+=[^/]*$")
_NULL_TEXT = "null"
_STRING = "string"


def keys_from_listing(text: str, fields: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Keys from the partitions of a scan of files; `fields` are names with Spark's types."""
    if not fields:
        return ()
    keys: dict[str, None] = {}
    for listed in _LISTED.findall(text):
        parts = [listed] if len(fields) == 1 else listed.split(",")
        if len(parts) != len(fields) or len(keys) >= MAX_PARTITIONS:
            return ()
        named = list(zip(fields, parts, strict=True))
        if any(_is_ambiguous(kind, part) for (_, kind), part in named):
            return ()
        keys.setdefault(
            format_partition_key({name: _format(kind, part) for (name, kind), part in named})
        )
    return tuple(sorted(keys))


def keys_from_tasks(text: str, types: Iterable[str], specs: Iterable[str]) -> tuple[str, ...]:
    """Keys from the tasks of an Iceberg scan, with the types and transforms of the table's specs."""
    kinds = {name: kind for each in types for name, kind in _FIELD.findall(each)}
    transforms = {name: transform for each in specs for name, transform in _TRANSFORM.findall(each)}
    keys: dict[str, None] = {}
    for data in dict.fromkeys(_ICEBERG.findall(text)):
        values = _parse_values(data, kinds)
        if values is None or len(keys) >= MAX_PARTITIONS:
            return ()
        if values:
            formatted = {
                name: _format(kinds[name], value, transforms.get(name, "identity"))
                for name, value in values.items()
            }
            keys.setdefault(format_partition_key(formatted))
    return tuple(sorted(keys))


def split_partition_folders(paths: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Paths without the partition folders at their ends, and the keys of these folders.

    Several files are replaced by the folders that hold them; a single file is a dataset.
    """
    roots: dict[str, None] = {}
    keys: dict[str, None] = {}
    all_paths, are_known = list(paths), True
    for path in all_paths:
        root, folders = path.rstrip("/"), list[str]()
        if len(all_paths) > 1 and _FILE.search(root):
            root = root.rpartition("/")[0]
        while _IN_PATH.match(root.rpartition("/")[2]):
            root, _, folder = root.rpartition("/")
            folders.append(folder)
        roots.setdefault(root)
        values = parse_partition_key("/".join(folders))  # folders are spelt as keys are
        if values:
            keys.setdefault(format_partition_key(values))
        are_known = are_known and values is not None and len(keys) <= MAX_PARTITIONS
    return tuple(roots), tuple(sorted(keys)) if are_known else ()


def _parse_values(data: str, kinds: Mapping[str, str]) -> dict[str, str] | None:
    """The values in a text such as `ds=20455, region=eu`, or None if it is ambiguous."""
    parts = data.split(", ") if data else []
    values: dict[str, str] = {}
    for part in parts:
        name, equals, value = part.partition("=")
        if not equals or name not in kinds or name in values or _is_ambiguous(kinds[name], value):
            return None
        values[name] = value
    return values


def _is_ambiguous(kind: str, text: str) -> bool:
    """Whether it may be a null or the string `null`."""
    return kind == _STRING and text == _NULL_TEXT


def _format(kind: str, text: str, transform: str = "identity") -> str:
    if text == _NULL_TEXT:
        return NULL
    formatter = _FORMATTERS.get(transform) or _FORMATTERS.get(kind)
    return text if formatter is None else formatter(int(text))


def _month(months: int) -> str:
    years, month = divmod(months, 12)
    return f"{1970 + years:04}-{month + 1:02}"


def _timestamp(microseconds: int) -> str:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
    return at.replace(tzinfo=None).isoformat(" ")


def _hour(hours: int) -> str:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=hours)
    return at.strftime("%Y-%m-%d-%H")


def _day(days: int) -> str:
    return (_EPOCH + timedelta(days=days)).isoformat()


_FORMATTERS: Mapping[str, Callable[[int], str]] = {
    "date": _day,
    "day": _day,
    "hour": _hour,
    "month": _month,
    "timestamp": _timestamp,
    "timestamp_ntz": _timestamp,
    "timestamptz": _timestamp,
    "year": lambda years: f"{1970 + years:04}",
}
