"""Logs: what attempts have written, in numbered parts that are created once and never change.

A part is stored when its lines arrive with a sign of life or with the end of the attempt. Parts are read by
asking for one number after the other, without any listing (law 6).
"""

from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from arco.core.errors import Conflict
from arco.core.hashing import sha256_hex
from arco.storage.store import Store

_REMEMBERED = 10_000
_AT_ONCE = 16
_ANSWER_BYTES = 1024 * 1024  # an answer has no more than that and the parts of one look


def log_key(run_id: str, attempt_id: str, number: int) -> str:
    """Where a part of a log is stored."""
    return f"logs/{run_id}/{attempt_id}/{number:06d}.txt"


@dataclass
class _Known:
    """How far the log of an attempt was written, as far as this process knows."""

    number: int = 0
    last_sha256: str = ""


class Logs:
    """Writes the logs of attempts."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[str, _Known] = OrderedDict()

    async def write(self, run_id: str, attempt_id: str, text: str, part: int | None = None) -> None:
        """Store a part, durable on return. One whose number is there already was sent again."""
        if not text:
            return
        body = text.encode(errors="replace")
        if part is None:
            await self._write_next(run_id, attempt_id, body)
            return
        with suppress(Conflict):
            await self._store.create(log_key(run_id, attempt_id, part), body)

    async def _write_next(self, run_id: str, attempt_id: str, body: bytes) -> None:
        """Of workers that do not count their parts: the same twice in a row is taken for one."""
        known = self._known.setdefault(attempt_id, _Known())
        self._known.move_to_end(attempt_id)
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        sha256 = sha256_hex(body)
        while sha256 != known.last_sha256:
            number = known.number
            try:
                await self._store.create(log_key(run_id, attempt_id, number), body)
            except Conflict:
                known.number = max(known.number, number + 1)  # written before a restart
            else:
                known.number = max(known.number, number + 1)
                known.last_sha256 = sha256


class LogRead(NamedTuple):
    """Some of a log, the number of the part that comes next, and whether there was none yet."""

    text: str
    next: int
    is_whole: bool


async def read_log(store: Store, run_id: str, attempt_id: str, first: int = 0) -> LogRead:
    """The log of an attempt from a part on, as much as is told at once."""
    parts: list[bytes] = []
    number, size, is_whole = first, 0, False
    while size < _ANSWER_BYTES and not is_whole:
        keys = [log_key(run_id, attempt_id, number + each) for each in range(_AT_ONCE)]
        found = await store.runtime.tasks.gather(*map(store.find, keys))
        for part in found:
            if part is None:
                is_whole = True
                break
            parts.append(part)
            number += 1
            size += len(part)
    return LogRead(b"".join(parts).decode(errors="replace"), number, is_whole)
