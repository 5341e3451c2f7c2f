"""Names of partitions: one spelling for each, however it was sent.

A key is `name=value` for each column, sorted and joined by `/`, with `%` and `/` written as in a URL, and
`=` too in a name. The id is the SHA-256 of the table's id and the key, unless the sender has its own.
"""

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from arco.core import json
from arco.events.field import Id, Key, Payload, Values

_REMEMBERED = 16_384


class Partition(NamedTuple):
    """A partition; `values` is None where the key does not say them."""

    partition_id: str
    key: str | None
    values: tuple[tuple[str, str], ...] | None


class MayNamePartition(Payload, frozen=True, kw_only=True):
    """A payload that may name a partition: by its values, its key or its id."""

    partition_values: Values | None = None
    partition_key: Key | None = None
    partition_id: Id | None = None

    def __post_init__(self) -> None:
        values, key = self.partition_values, self.partition_key
        if values is not None and key is not None and canonical_key(key) != key_of(values):
            raise ValueError("partition_key and partition_values are not of the same partition")


class NamesPartition(MayNamePartition, frozen=True, kw_only=True):
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


def partition_of(table_id: str, named: MayNamePartition) -> Partition | None:
    """The partition that a payload names, if it does."""
    if named.partition_values is not None:
        found = _by_values(table_id, tuple(named.partition_values.items()))
    elif named.partition_key is not None:
        found = _by_key(table_id, named.partition_key)
    elif named.partition_id is not None:
        return Partition(named.partition_id, None, None)
    else:
        return None
    return found if named.partition_id is None else found._replace(partition_id=named.partition_id)


def key_of(values: dict[str, str]) -> str:
    """The key of a partition with these values."""
    return _joined(values.items())


def canonical_key(key: str) -> str:
    """The one spelling of a key; a key that does not name columns is taken as it is."""
    values = values_of(key)
    return key if values is None else key_of(values)


def values_of(key: str) -> dict[str, str] | None:
    """The values that a key says, if it says any."""
    if not key:
        return {}
    found: dict[str, str] = {}
    for part in key.split("/"):
        written, equals, value = part.partition("=")
        name = _plain(written)
        if not equals or not name or name in found:
            return None
        found[name] = _plain(value)
    return found


@lru_cache(_REMEMBERED)
def _by_values(table_id: str, items: tuple[tuple[str, str], ...]) -> Partition:
    key = _joined(items)
    return Partition(_id(table_id, key), key, items if len(items) == 1 else tuple(sorted(items)))


@lru_cache(_REMEMBERED)
def _by_key(table_id: str, key: str) -> Partition:
    values = values_of(key)
    if values is None:
        return Partition(_id(table_id, key), key, None)
    return _by_values(table_id, tuple(values.items()))


def _id(table_id: str, key: str) -> str:
    return hashlib.sha256(json.encode((table_id, key))).hexdigest()


def _joined(items: Iterable[tuple[str, str]]) -> str:
    parts = [f"{_name(name)}={_escaped(value)}" for name, value in items]
    if len(parts) > 1:
        parts.sort()
    return "/".join(parts)


def _name(text: str) -> str:
    return _escaped(text).replace("=", "%3D") if "=" in text else _escaped(text)


def _escaped(text: str) -> str:
    if "%" in text or "/" in text:
        return text.replace("%", "%25").replace("/", "%2F")
    return text


def _plain(text: str) -> str:
    if "%" not in text or "%00" in text:  # no query could ask for a null character
        return text
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        return text
