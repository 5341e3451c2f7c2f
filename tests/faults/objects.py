"""The objects of one bucket: a strongly consistent map from name to bytes.

Every write happens under one lock, so that of any number of conditional creates exactly one
wins. Names are kept in order, and a page of a listing starts anywhere in that order.
"""

import hashlib
import threading
import time
from bisect import bisect_left, insort
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class Condition:
    """What must hold for an operation to go ahead; an empty condition always holds."""

    if_absent: bool = False
    if_etag: str | None = None
    unless_etag: str | None = None
    if_generation: int | None = None


ALWAYS = Condition()


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One version of one object. `generation` grows with every write to the bucket."""

    key: str
    body: bytes = field(repr=False)
    content_type: str
    metadata: Mapping[str, str]
    generation: int
    modified: datetime
    md5: bytes

    @property
    def etag(self) -> str:
        """S3's entity tag without quotes: equal bytes have equal tags."""
        return self.md5.hex()

    @property
    def version_etag(self) -> str:
        """Azure's entity tag without quotes: each write has its own."""
        return f"0x{self.generation:X}"

    def satisfies(self, condition: Condition) -> bool:
        tags = ("*", self.etag, self.version_etag)
        return (
            not condition.if_absent
            and (condition.if_etag is None or condition.if_etag in tags)
            and condition.unless_etag not in tags
            and condition.if_generation in (None, self.generation)
        )


@dataclass(frozen=True, slots=True)
class Page:
    """A stretch of a listing; `resume_at` is where the next page starts, or None at the end."""

    objects: tuple[StoredObject, ...]
    common_prefixes: tuple[str, ...]
    resume_at: str | None


def just_after(name: str) -> str:
    """The smallest name that sorts after `name`."""
    return name + "\0"


def after_all_with(prefix: str) -> str:
    """The smallest name that sorts after every name that begins with `prefix`."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


class Bucket:
    """The named objects of a bucket. Any thread may read while one thread writes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._objects: dict[str, StoredObject] = {}
        # Python orders str by code point, which is the order of the UTF-8 bytes that stores
        # promise, so that no second, encoded copy of the names is needed.
        self._names: list[str] = []
        self._generation = 0

    def holds(self, key: str, condition: Condition) -> bool:
        """Whether `condition` is met by what is stored under `key` now."""
        stored = self._objects.get(key)
        if stored is not None:
            return stored.satisfies(condition)
        return condition.if_etag is None and condition.if_generation in (None, 0)

    def put(
        self,
        key: str,
        body: bytes,
        content_type: str,
        metadata: Mapping[str, str],
        condition: Condition,
    ) -> StoredObject | None:
        """Store the object and return it, or return None where the condition is not met."""
        md5 = hashlib.md5(body, usedforsecurity=False).digest()
        with self._lock:
            if not self.holds(key, condition):
                return None
            # A generation is a time in microseconds, as in GCS, but never repeats.
            self._generation = max(self._generation + 1, time.time_ns() // 1000)
            stored = StoredObject(
                key, body, content_type, metadata, self._generation, datetime.now(UTC), md5
            )
            if key not in self._objects:
                insort(self._names, key)
            self._objects[key] = stored
            return stored

    def get(self, key: str) -> StoredObject | None:
        return self._objects.get(key)

    def delete(self, key: str) -> bool:
        """Remove the object; False where there was none."""
        with self._lock:
            if self._objects.pop(key, None) is None:
                return False
            del self._names[bisect_left(self._names, key)]
            return True

    def page(self, prefix: str, start: str, delimiter: str, limit: int) -> Page:
        """At most `limit` entries with `prefix` whose names are `start` or later."""
        objects: list[StoredObject] = []
        prefixes: list[str] = []
        with self._lock:
            at = bisect_left(self._names, max(prefix, start))
            while at < len(self._names) and self._names[at].startswith(prefix):
                name = self._names[at]
                if len(objects) + len(prefixes) == limit:
                    return Page(tuple(objects), tuple(prefixes), name)
                cut = name.find(delimiter, len(prefix)) if delimiter else -1
                if cut < 0:
                    objects.append(self._objects[name])
                    at += 1
                else:
                    prefixes.append(name[: cut + len(delimiter)])
                    at = bisect_left(self._names, after_all_with(prefixes[-1]))
        return Page(tuple(objects), tuple(prefixes), None)

    def snapshot(self) -> dict[str, StoredObject]:
        """Every object by name, in order, as of now."""
        with self._lock:
            return {name: self._objects[name] for name in self._names}
