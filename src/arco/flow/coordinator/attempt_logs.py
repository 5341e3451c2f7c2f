"""The logs of attempts: numbered chunks that are created once and never change.

A chunk is stored when its lines arrive with a heartbeat or with the end of the attempt. Chunks are read by
increasing numbers until one is missing, without listing (law 6).
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from arco.core.errors import Conflict
from arco.core.hashing import sha256_hex
from arco.core.lru_cache import LruCache
from arco.storage.store import Store

_MAX_CURSORS = 10_000
_CONCURRENT_READS = 16
_PAGE_BYTES = 1024 * 1024  # a page ends after the batch of reads that exceeds it


def log_key(run_id: str, attempt_id: str, number: int) -> str:
    """The key of a chunk of a log."""
    return f"logs/{run_id}/{attempt_id}/{number:06d}.txt"


@dataclass
class _Cursor:
    """The next chunk of a log, as far as this process knows, and the hash of the previous one."""

    number: int = 0
    last_sha256: str = ""


class AttemptLogStore:
    """Writes the logs of attempts."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._cursors = LruCache[str, _Cursor](_MAX_CURSORS)

    async def write(self, run_id: str, attempt_id: str, text: str, part: int | None = None) -> None:
        """Store a chunk, durably on return. A number that exists was sent before."""
        if not text:
            return
        body = text.encode(errors="replace")
        if part is None:
            await self._write_next(run_id, attempt_id, body)
            return
        with suppress(Conflict):
            await self._store.create(log_key(run_id, attempt_id, part), body)

    async def _write_next(self, run_id: str, attempt_id: str, body: bytes) -> None:
        """For workers that send no numbers: the same chunk twice in a row counts once."""
        cursor = self._cursors.get(attempt_id)
        if cursor is None:
            cursor = _Cursor()
            self._cursors.put(attempt_id, cursor)
        sha256 = sha256_hex(body)
        while sha256 != cursor.last_sha256:
            number = cursor.number
            try:
                await self._store.create(log_key(run_id, attempt_id, number), body)
            except Conflict:
                cursor.number = max(cursor.number, number + 1)  # written before a restart
            else:
                cursor.number = max(cursor.number, number + 1)
                cursor.last_sha256 = sha256


class LogPage(NamedTuple):
    """Some chunks of a log, the number of the next, and whether that one was missing."""

    text: str
    next: int
    is_whole: bool


async def read_log(store: Store, run_id: str, attempt_id: str, first: int = 0) -> LogPage:
    """A page of the log of an attempt, from a chunk on."""
    chunks: list[bytes] = []
    number, size, is_whole = first, 0, False
    while size < _PAGE_BYTES and not is_whole:
        keys = [log_key(run_id, attempt_id, number + each) for each in range(_CONCURRENT_READS)]
        for chunk in await store.runtime.tasks.gather(*map(store.find, keys)):
            if chunk is None:
                is_whole = True
                break
            chunks.append(chunk)
            number += 1
            size += len(chunk)
    return LogPage(b"".join(chunks).decode(errors="replace"), number, is_whole)
