"""Keys and ids of partitions: one canonical spelling for each partition.

A key is `name=value` for each column, sorted and joined by `/`, with `%` and `/` percent-encoded, and `=`
too in a name. The id is the SHA-256 of the table's id and the key, unless the sender gives one.
"""

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from arco.core import json
from arco.events.payload import Id, Key, Payload, Values

_CACHE_SIZE = 16_384


class PartitionName(NamedTuple):
    """A partition; `values` is None if the key does not contain them."""

    partition_id: str
    key: str | None
    values: tuple[tuple[str, str], ...] | None


class OptionalPartitionPayload(Payload, frozen=True, kw_only=True):
    """A payload that may name a partition, by its values, its key or its id."""

    partition_values: Values | None = None
    partition_key: Key | None = None
    partition_id: Id | None = None

    def __post_init__(self) -> None:
        values, key = self.partition_values, self.partition_key
        if (
            values is not None
            and key is not None
            and canonical_partition_key(key) != format_partition_key(values)
        ):
            raise ValueError("partition_key and partition_values name different partitions")


class PartitionPayload(OptionalPartitionPayload, frozen=True, kw_only=True):
    """A payload that names a partition."""

    table_id: Id

    def __post_init__(self) -> None:
        if (
            self.partition_id is None
            and self.partition_key is None
            and self.partition_values is None
        ):
            raise ValueError("one of partition_values, partition_key and partition_id is needed")
        super().__post_init__()


def resolve_partition(table_id: str, payload: OptionalPartitionPayload) -> PartitionName | None:
    """The partition that a payload names, if it does."""
    if payload.partition_values is not None:
        name = _by_values(table_id, tuple(payload.partition_values.items()))
    elif payload.partition_key is not None:
        name = _by_key(table_id, payload.partition_key)
    elif payload.partition_id is not None:
        return PartitionName(payload.partition_id, None, None)
    else:
        return None
    return (
        name if payload.partition_id is None else name._replace(partition_id=payload.partition_id)
    )


def format_partition_key(values: dict[str, str]) -> str:
    """The key of a partition with these values."""
    return _join(values.items())


def canonical_partition_key(key: str) -> str:
    """The canonical spelling of a key; a key that does not name columns is returned unchanged."""
    values = parse_partition_key(key)
    return key if values is None else format_partition_key(values)


def parse_partition_key(key: str) -> dict[str, str] | None:
    """The values in a key, or None if it does not name columns."""
    if not key:
        return {}
    values: dict[str, str] = {}
    for part in key.split("/"):
        written, equals, value = part.partition("=")
        name = _unescape(written)
        if not equals or not name or name in values:
            return None
        values[name] = _unescape(value)
    return values


@lru_cache(_CACHE_SIZE)
def _by_values(table_id: str, items: tuple[tuple[str, str], ...]) -> PartitionName:
    key = _join(items)
    return PartitionName(
        _id(table_id, key), key, items if len(items) == 1 else tuple(sorted(items))
    )


@lru_cache(_CACHE_SIZE)
def _by_key(table_id: str, key: str) -> PartitionName:
    values = parse_partition_key(key)
    if values is None:
        return PartitionName(_id(table_id, key), key, None)
    return _by_values(table_id, tuple(values.items()))


def _id(table_id: str, key: str) -> str:
    return hashlib.sha256(json.encode((table_id, key))).hexdigest()


def _join(items: Iterable[tuple[str, str]]) -> str:
    parts = [f"{_escape_name(name)}={_escape(value)}" for name, value in items]
    if len(parts) > 1:
        parts.sort()
    return "/".join(parts)


def _escape_name(text: str) -> str:
    return _escape(text).replace("=", "%3D") if "=" in text else _escape(text)


def _escape(text: str) -> str:
    if "%" in text or "/" in text:
        return text.replace("%", "%25").replace("/", "%2F")
    return text


def _unescape(text: str) -> str:
    if "%" not in text or "%00" in text:  # SQL cannot contain a null character
        return text
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        return text
