"""The metadata of a table or view as it is answered, and a cache of metadata files.

The answer to a load is the stored JSON between a prefix and a suffix: nothing is parsed that can be
passed through. Compressed forms and the form with only referenced snapshots are built on first use and
kept.
"""

import gzip
from collections import OrderedDict
from enum import StrEnum
from functools import cached_property

from arco.core import json
from arco.core.hashing import sha256_hex
from arco.iceberg.engine.metadata import Metadata, complete_metadata, encode_metadata, refs_only
from arco.iceberg.engine.view_metadata import check_view

_LEVEL = 1  # of compression: a fast answer matters more than a small one
_PARSED = 8  # parsed metadata takes about this many times the memory of its bytes
_OVERHEAD_BYTES = 2_000


class SnapshotsMode(StrEnum):
    """Which snapshots an answer holds: the `snapshots` parameter of a load."""

    ALL = "all"
    REFS = "refs"


class LoadedMetadata:
    """One metadata file and the answers that are built from it. It never changes."""

    def __init__(
        self,
        location: str | None,
        raw: bytes,
        *,
        config: bytes = b"{}",
        metadata: Metadata | None = None,
    ) -> None:
        self.location = location
        self._config = config
        self._head = b'{"metadata-location":%s,"metadata":' % json.encode(location)
        self._full_body = self._around(raw)
        self._raw_bytes = len(raw)
        self._plain: dict[SnapshotsMode, bytes] = {SnapshotsMode.ALL: self._full_body}
        self._gzipped: dict[SnapshotsMode, bytes] = {}
        self._metadata = metadata
        self.kept_bytes = (
            len(self._full_body) + _OVERHEAD_BYTES + (_PARSED * len(raw) if metadata else 0)
        )

    @property
    def raw(self) -> bytes:
        """The stored metadata, uncompressed."""
        return self._full_body[len(self._head) : len(self._head) + self._raw_bytes]

    @property
    def metadata(self) -> Metadata:
        """The metadata, parsed on first use."""
        if self._metadata is None:
            self._metadata = _parse(self.raw)
            self.kept_bytes += _PARSED * self._raw_bytes
        return self._metadata

    def etag(self, form: SnapshotsMode) -> str:
        """The ETag of an answer: it identifies the file and the form (P33)."""
        return self._etags[form]

    def ready(self, form: SnapshotsMode, *, packed: bool) -> bytes | None:
        """The answer to a load, compressed or not, if it was built already."""
        return (self._gzipped if packed else self._plain).get(form)

    def body(self, form: SnapshotsMode) -> bytes:
        """The answer to a load."""
        body = self._plain.get(form)
        if body is None:
            body = self._plain[form] = self._without_history()
        return body

    def gzipped(self, form: SnapshotsMode) -> bytes:
        """The same, compressed."""
        body = self._gzipped.get(form)
        if body is None:
            body = self._gzipped[form] = gzip.compress(self.body(form), _LEVEL, mtime=0)
            self.kept_bytes += len(body)
        return body

    def _without_history(self) -> bytes:
        """The answer with only the snapshots that a branch or tag names."""
        metadata = self.metadata
        short = refs_only(metadata)
        if short is metadata:
            return self._full_body
        body = self._around(encode_metadata(short))
        self.kept_bytes += len(body)
        return body

    @cached_property
    def _etags(self) -> dict[SnapshotsMode, str]:
        return {
            form: f'"{sha256_hex(f"{self.location} {form}".encode())[:32]}"'
            for form in SnapshotsMode
        }

    def _around(self, raw: bytes) -> bytes:
        return b"".join((self._head, raw, b',"config":', self._config, b"}"))


def _parse(raw: bytes) -> Metadata:
    metadata: Metadata = json.decode(raw, dict)
    return check_view(metadata) if "view-uuid" in metadata else complete_metadata(metadata)


class MetadataCache:
    """Metadata files by location; the least recently used are dropped first.

    Not an `LruCache`: that takes the size of a value as fixed, and files grow while they are cached.
    """

    def __init__(self, cache_bytes: int) -> None:
        self._cache_bytes = cache_bytes
        self._by_location: OrderedDict[str, LoadedMetadata] = OrderedDict()
        self._puts = 0

    def get(self, location: str) -> LoadedMetadata | None:
        """The file, if it is cached."""
        loaded = self._by_location.get(location)
        if loaded is not None:
            self._by_location.move_to_end(location)
        return loaded

    def put(self, loaded: LoadedMetadata) -> None:
        """Cache a file; its size may grow later, as answers are built from it."""
        if loaded.location is None:
            return
        self._by_location[loaded.location] = loaded
        self._by_location.move_to_end(loaded.location)
        self._puts += 1
        if self._puts % 16 == 0 or loaded.kept_bytes > self._cache_bytes // 64:
            self._evict()

    def forget(self, location: str) -> None:
        """Remove a file that no longer exists."""
        self._by_location.pop(location, None)

    def _evict(self) -> None:
        total = sum(each.kept_bytes for each in self._by_location.values())
        while total > self._cache_bytes and len(self._by_location) > 1:
            total -= self._by_location.popitem(last=False)[1].kept_bytes
