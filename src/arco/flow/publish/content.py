"""The content of a plain Parquet table: its files by partition, from a full list and changes (law 14).

Contents are cached, so a warm process reads new entries only. A cold one reads the entries since the last
full list, sixteen at a time, and that list.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from arco.core import json
from arco.core.errors import Corrupt, Invalid, NotFound, Unavailable, Unknown
from arco.core.hashing import sha256_hex
from arco.core.ids import new_ulid
from arco.core.lru_cache import LruCache
from arco.flow.publish.pointer import (
    FULL_LIST_INTERVAL,
    Files,
    FullListRef,
    ParquetPointer,
    PublishMode,
    TableTotals,
    parquet_pointer_of,
)
from arco.flow.publish.wire import StagedFile
from arco.storage.chain import Chain, Head
from arco.storage.entry import Entry
from arco.storage.store import Store

CONTENT_FORMAT = 1


class TableContent(msgspec.Struct, frozen=True, kw_only=True):
    """All files of one version, and the attempt that made each partition, empty ones included."""

    format: int = CONTENT_FORMAT
    files: Files = msgspec.field(default_factory=dict)
    materials: dict[str, str] = msgspec.field(default_factory=dict)

    def paths(self) -> set[str]:
        """The paths of the files below the table's location."""
        return paths_of(self.files)


EMPTY_CONTENT = TableContent()


def apply_pointer(content: TableContent, pointer: ParquetPointer) -> TableContent:
    """The content after a version, from the content before it."""
    if pointer.mode is PublishMode.FENCE:
        return content
    changed, made = pointer.changed, dict.fromkeys(pointer.changed, pointer.publication.attempt_id)
    if pointer.mode is PublishMode.REPLACE:
        return TableContent(files=_filled(changed), materials=made)
    if pointer.mode is PublishMode.APPEND:
        changed = {key: content.files.get(key, ()) + added for key, added in changed.items()}
    return TableContent(
        files=_filled({**content.files, **changed}), materials={**content.materials, **made}
    )


def totals_after(
    before: TableTotals, content: TableContent, mode: PublishMode, changed: Files
) -> TableTotals:
    """The totals after a change, without counting the files that stay."""
    if mode is PublishMode.FENCE:
        return before
    gone: Iterable[tuple[StagedFile, ...]] = ()
    if mode is PublishMode.REPLACE:
        gone = content.files.values()
    elif mode is PublishMode.REPLACE_PARTITION:
        gone = (content.files.get(key, ()) for key in changed)
    removed, added = _count(gone), _count(changed.values())
    return TableTotals(
        rows=before.rows - removed.rows + added.rows,
        bytes=before.bytes - removed.bytes + added.bytes,
        files=before.files - removed.files + added.files,
    )


def paths_of(files: Files) -> set[str]:
    """The paths of files below the table's location."""
    return {each.path for some in files.values() for each in some}


def _filled(files: Files) -> Files:
    return {key: some for key, some in files.items() if some}


def _count(files: Iterable[tuple[StagedFile, ...]]) -> TableTotals:
    counted = [each for some in files for each in some]
    return TableTotals(
        rows=sum(each.rows for each in counted),
        bytes=sum(each.bytes for each in counted),
        files=len(counted),
    )


_CACHED_FILES = 500_000


@dataclass(frozen=True)
class _CachedContent:
    """The content as of an entry."""

    number: int
    sha256: str
    content: TableContent
    files: int


class ContentReader:
    """Reads the contents of tables, and caches the newest of each."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._cache = LruCache[str, _CachedContent](
            _CACHED_FILES, lambda each: each.files, keep_newest=True
        )

    async def at(self, chain: Chain, head: Head) -> TableContent:
        """The content as of the head of a chain."""
        if head.entry is None:
            return EMPTY_CONTENT
        cached = self._cache.get(chain.path)
        if cached is not None and 0 <= head.number - cached.number < FULL_LIST_INTERVAL:
            content = await _advance(chain, cached, head.entry)
            if content is not None:
                return self.cache(chain, head.entry, content)
        return self.cache(chain, head.entry, await self.read(chain, head.number))

    async def read(self, chain: Chain, number: int) -> TableContent:
        """The content as of an entry, from the store."""
        first = number - number % FULL_LIST_INTERVAL
        entries = await chain.history(first, number)
        if first == 0:
            content = apply_pointer(EMPTY_CONTENT, parquet_pointer_of(entries[0]))
        else:
            content = await self._full(chain, entries[0])
        for entry in entries[1:]:
            content = apply_pointer(content, parquet_pointer_of(entry))
        return content

    def cache(self, chain: Chain, entry: Entry, content: TableContent) -> TableContent:
        """Cache the content as of an entry."""
        count = sum(len(each) for each in content.files.values())
        cached = _CachedContent(entry.number, entry.sha256(), content, count)
        self._cache.put(chain.path, cached)
        return content

    async def write_full(self, chain: Chain, number: int, content: TableContent) -> FullListRef:
        """Write the list of all files, before the entry that names it."""
        raw = await self._store.runtime.tasks.in_thread(lambda: json.encode(content))
        key = f"{chain.path}/full/{number:020d}-{new_ulid(self._store.runtime)}.json"
        try:
            await self._store.create(key, raw)
        except Unknown as unclear:  # no entry names it, so nothing has happened
            raise Unavailable("the list of all files could not be stored; retry") from unclear
        return FullListRef(key=key, sha256=sha256_hex(raw), bytes=len(raw))

    async def _full(self, chain: Chain, entry: Entry) -> TableContent:
        ref, number = parquet_pointer_of(entry).full, entry.number
        if ref is None:
            raise Corrupt(f"entry {number} of {chain.path} does not name the list of all files")
        try:
            raw = await self._store.get(ref.key, size_bytes=ref.bytes)
        except NotFound as missing:
            raise Corrupt(f"{ref.key} is missing, which entry {number} names") from missing
        if sha256_hex(raw) != ref.sha256:
            raise Corrupt(f"{ref.key} does not have the hash that entry {number} names")
        try:
            content = await self._store.runtime.tasks.in_thread(
                lambda: json.decode(raw, TableContent)
            )
        except Invalid as problem:
            raise Corrupt(f"{ref.key} is not a list of files: {problem}") from problem
        if content.format != CONTENT_FORMAT:
            raise Corrupt(f"{ref.key} has format {content.format}; upgrade Arco to read it")
        return content


async def _advance(chain: Chain, cached: _CachedContent, last: Entry) -> TableContent | None:
    """The content as of `last` from the changes since the cached one; None if they do not follow."""
    if last.number == cached.number:
        return cached.content if last.sha256() == cached.sha256 else None
    content, parent = cached.content, cached.sha256
    between = [last]
    if last.number > cached.number + 1:
        between = await chain.history(cached.number + 1, last.number)
    for entry in between:
        if entry.record.parent_sha256 != parent:
            return None
        content, parent = apply_pointer(content, parquet_pointer_of(entry)), entry.sha256()
    return content
