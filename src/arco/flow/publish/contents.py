"""Reading contents: from the last version that names all files, and the changes since (law 14).

What was read is remembered, so a warm process reads the new numbers alone. Cold it takes the numbers since
the last full list, sixteen at a time, and that list.
"""

from collections import OrderedDict
from dataclasses import dataclass

from arco.core import json
from arco.core.errors import Corrupt, Invalid, NotFound, Unavailable, Unknown
from arco.core.hashing import sha256_hex
from arco.core.ids import new_ulid
from arco.flow.publish.content import EMPTY, FORMAT, Content, after
from arco.flow.publish.pointer import EVERY, FullRef, parquet_pointer_of
from arco.storage.chain import Chain, Head
from arco.storage.link import Entry
from arco.storage.store import Store

_REMEMBERED_FILES = 500_000


@dataclass(frozen=True)
class _Kept:
    """The content as of an entry."""

    number: int
    sha256: str
    content: Content
    files: int


class Contents:
    """The contents of tables, each as it was last read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._kept_files = 0

    async def at(self, chain: Chain, head: Head) -> Content:
        """The content as of the end of a chain."""
        if head.entry is None:
            return EMPTY
        known = self._kept.get(chain.path)
        if known is not None and 0 <= head.number - known.number < EVERY:
            found = await _onward(chain, known, head.entry)
            if found is not None:
                return self.keep(chain, head.entry, found)
        return self.keep(chain, head.entry, await self.read(chain, head.number))

    async def read(self, chain: Chain, number: int) -> Content:
        """The content as of a number, from the store."""
        first = number - number % EVERY
        entries = await chain.history(first, number)
        if first == 0:
            content = after(EMPTY, parquet_pointer_of(entries[0]))
        else:
            content = await self._full(chain, entries[0])
        for entry in entries[1:]:
            content = after(content, parquet_pointer_of(entry))
        return content

    def keep(self, chain: Chain, entry: Entry, content: Content) -> Content:
        """Remember the content as of an entry."""
        count = sum(len(each) for each in content.files.values())
        old = self._kept.pop(chain.path, None)
        self._kept_files += count - (0 if old is None else old.files)
        self._kept[chain.path] = _Kept(entry.number, entry.sha256(), content, count)
        while self._kept_files > _REMEMBERED_FILES and len(self._kept) > 1:
            self._kept_files -= self._kept.popitem(last=False)[1].files
        return content

    async def write_full(self, chain: Chain, number: int, content: Content) -> FullRef:
        """Write all files down, before the number that names the object."""
        raw = await self._store.runtime.tasks.in_thread(lambda: json.encode(content))
        key = f"{chain.path}/full/{number:020d}-{new_ulid(self._store.runtime)}.json"
        try:
            await self._store.create(key, raw)
        except Unknown as unclear:  # no number names it, so nothing has happened
            raise Unavailable("the list of all files could not be stored; retry") from unclear
        return FullRef(key=key, sha256=sha256_hex(raw), bytes=len(raw))

    async def _full(self, chain: Chain, entry: Entry) -> Content:
        ref, number = parquet_pointer_of(entry).full, entry.number
        if ref is None:
            raise Corrupt(f"number {number} of {chain.path} does not name all files")
        try:
            raw = await self._store.get(ref.key, size_bytes=ref.bytes)
        except NotFound as missing:
            raise Corrupt(f"{ref.key} is missing, which number {number} names") from missing
        if sha256_hex(raw) != ref.sha256:
            raise Corrupt(f"{ref.key} does not have the bytes that number {number} names")
        try:
            content = await self._store.runtime.tasks.in_thread(lambda: json.decode(raw, Content))
        except Invalid as problem:
            raise Corrupt(f"{ref.key} does not list files: {problem}") from problem
        if content.format != FORMAT:
            raise Corrupt(f"{ref.key} has format {content.format}; update Arco to read it")
        return content


async def _onward(chain: Chain, known: _Kept, last: Entry) -> Content | None:
    """The content as of `last` by the changes since what is known; None if they do not follow from it."""
    if last.number == known.number:
        return known.content if last.sha256() == known.sha256 else None
    content, parent = known.content, known.sha256
    between = [last]
    if last.number > known.number + 1:
        between = await chain.history(known.number + 1, last.number)
    for entry in between:
        if entry.link.parent_sha256 != parent:
            return None
        content, parent = after(content, parquet_pointer_of(entry)), entry.sha256()
    return content
