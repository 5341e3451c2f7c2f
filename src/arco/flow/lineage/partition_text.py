"""Partition texts: Spark and Iceberg print the partitions of a scan in one go; here they become keys.

To ask for each value by itself would take thousands of calls. What cannot be told apart in the text, as a
comma within a value of several, or the word `null` and no value, is not guessed: then no partitions are
known.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta

from arco.events.partition_key import format_partition_key, parse_partition_key

MOST_PARTITIONS = 10_000

NULL = "__HIVE_DEFAULT_PARTITION__"

_EPOCH = date(1970, 1, 1)
_LISTED = re.compile(r"ListingPartition\(\[(.*)\],\d+,", re.MULTILINE)
_ICEBERG = re.compile(r"partition_data=PartitionData\{(.*?)\}, residual=")
_FIELD = re.compile(r"\d+: (.+?): (?:optional|required) (\w+)")
_TRANSFORM = re.compile(r"^\s*\d+: (.+?): (\w+)", re.MULTILINE)
_FILE = re.compile(r"\.(parquet|orc|avro|csv|jsonl?|txt|xml)(\.\w+)?$")
_IN_PATH = re.compile(r"^[^=/]+=[^/]*$")
_NO_VALUE = "null"
_OF_TEXTS = "string"


def from_listing(text: str, fields: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Keys from the partitions of a scan of files; fields are names with Spark's types."""
    if not fields:
        return ()
    found: dict[str, None] = {}
    for listed in _LISTED.findall(text):
        parts = [listed] if len(fields) == 1 else listed.split(",")
        if len(parts) != len(fields) or len(found) >= MOST_PARTITIONS:
            return ()
        named = list(zip(fields, parts, strict=True))
        if any(_may_be_either(kind, part) for (_, kind), part in named):
            return ()
        found.setdefault(
            format_partition_key({name: _shown(kind, part) for (name, kind), part in named})
        )
    return tuple(sorted(found))


def from_tasks(text: str, types: Iterable[str], specs: Iterable[str]) -> tuple[str, ...]:
    """Keys from the tasks of a scan of Iceberg, with the types and transforms of the table's specs."""
    kinds = {name: kind for told in types for name, kind in _FIELD.findall(told)}
    transforms = {name: how for told in specs for name, how in _TRANSFORM.findall(told)}
    found: dict[str, None] = {}
    for data in dict.fromkeys(_ICEBERG.findall(text)):
        values = _named(data, kinds)
        if values is None or len(found) >= MOST_PARTITIONS:
            return ()
        if values:
            shown = {
                name: _shown(kinds[name], value, transforms.get(name, "identity"))
                for name, value in values.items()
            }
            found.setdefault(format_partition_key(shown))
    return tuple(sorted(found))


def from_paths(paths: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Paths without the partition folders at their ends, and the keys that these folders say.

    Several files are told as the folders that hold them; a single one is a dataset of its own.
    """
    roots: dict[str, None] = {}
    keys: dict[str, None] = {}
    given, are_known = list(paths), True
    for path in given:
        root, folders = path.rstrip("/"), list[str]()
        if len(given) > 1 and _FILE.search(root):
            root = root.rpartition("/")[0]
        while _IN_PATH.match(root.rpartition("/")[2]):
            root, _, folder = root.rpartition("/")
            folders.append(folder)
        roots.setdefault(root)
        values = parse_partition_key("/".join(folders))  # folders are spelt as keys are
        if values:
            keys.setdefault(format_partition_key(values))
        are_known = are_known and values is not None and len(keys) <= MOST_PARTITIONS
    return tuple(roots), tuple(sorted(keys)) if are_known else ()


def _named(data: str, kinds: Mapping[str, str]) -> dict[str, str] | None:
    """The values in a text such as `ds=20455, region=eu`, or None if it cannot be told."""
    parts = data.split(", ") if data else []
    found: dict[str, str] = {}
    for part in parts:
        name, equals, value = part.partition("=")
        if not equals or name not in kinds or name in found or _may_be_either(kinds[name], value):
            return None
        found[name] = value
    return found


def _may_be_either(kind: str, text: str) -> bool:
    """Whether it is no value, or a text that looks like none."""
    return kind == _OF_TEXTS and text == _NO_VALUE


def _shown(kind: str, text: str, transform: str = "identity") -> str:
    if text == _NO_VALUE:
        return NULL
    show = _SHOWN.get(transform) or _SHOWN.get(kind)
    return text if show is None else show(int(text))


def _month(months: int) -> str:
    years, month = divmod(months, 12)
    return f"{1970 + years:04}-{month + 1:02}"


def _moment(microseconds: int) -> str:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
    return at.replace(tzinfo=None).isoformat(" ")


def _hour(hours: int) -> str:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=hours)
    return at.strftime("%Y-%m-%d-%H")


def _day(days: int) -> str:
    return (_EPOCH + timedelta(days=days)).isoformat()


_SHOWN: Mapping[str, Callable[[int], str]] = {
    "date": _day,
    "day": _day,
    "hour": _hour,
    "month": _month,
    "timestamp": _moment,
    "timestamp_ntz": _moment,
    "timestamptz": _moment,
    "year": lambda years: f"{1970 + years:04}",
}
