"""Hints and floors: the objects beside a chain that say where its head was and where it begins.

A hint is mutable and best effort (law 2). It is written after the number it names is durable, every 5
seconds while the head moves, or sooner once it is 8 numbers ahead, but at most once a second, because
stores limit how often one name may be written. Garbage in a hint counts as absent. A chain of one number
has none.

The floors of a chain are a chain themselves, at `{chain}/floor/`, which is never collected. A floor is
raised before anything below it is deleted, so a number that is missing above it never existed (P6).
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from arco.core import json
from arco.core.errors import ArcoError, Invalid
from arco.core.tasks import Task
from arco.storage.store import Store

FORMAT = 1

_MIN_MS = 1_000  # between two writes of one name
_EVERY_MS = 5_000
_FAR_BEHIND = 8  # numbers: then a hint is written early
_TOO_LARGE = 2**63  # no chain is that long, and not every key could name such a number


class FloorBody(msgspec.Struct, frozen=True):
    """The body of an entry of the floor chain."""

    floor: int


@dataclass(frozen=True)
class FloorMark:
    """A floor: its number in the floor chain, and the first number that was not collected."""

    index: int
    floor: int


NO_FLOOR = FloorMark(-1, 0)


class Hint(msgspec.Struct, frozen=True, kw_only=True):
    """The body of `head.json`."""

    format: int
    number: int
    floor_index: int
    floor: int

    def floor_mark(self) -> FloorMark:
        """The newest floor that the writer of the hint knew."""
        return FloorMark(self.floor_index, self.floor)


async def read_hint(store: Store, key: str) -> Hint | None:
    """The hint at `key`, or None if it is missing or not valid."""
    raw = await store.find(key)
    try:
        hint = None if raw is None else json.decode(raw, Hint)
    except Invalid:
        return None
    if hint is None or hint.format != FORMAT:
        return None
    is_valid = (
        0 <= hint.number < _TOO_LARGE
        and -1 <= hint.floor_index < _TOO_LARGE
        and 0 <= hint.floor < _TOO_LARGE
    )
    return hint if is_valid else None


class HintWriter:
    """Writes the hint of one chain often enough."""

    def __init__(
        self, store: Store, key: str, mark: Callable[[], Awaitable[tuple[int, FloorMark]]]
    ) -> None:
        self._key = key
        self._store = store
        self._mark = mark
        self._clock = store.runtime.clock
        self._written_ms = float("-inf")
        self._written_number = 0
        self._stale = False
        self._writing: Task[bool] | None = None

    def moved(self, number: int) -> None:
        """The head has moved to `number`: write a hint in the background, if one is due."""
        if number == 0:
            return
        self._stale = True
        busy = self._writing is not None and not self._writing.done()
        far_behind = number - self._written_number >= _FAR_BEHIND
        pause_ms = _MIN_MS if far_behind else _EVERY_MS
        if not busy and self._clock.elapsed_ms() - self._written_ms >= pause_ms:
            self._writing = self._store.runtime.tasks.spawn(self.write())

    async def close(self) -> None:
        """Write a hint that names the last head."""
        if self._writing is not None:
            await self._writing.wait()
        if self._stale:
            rest_ms = self._written_ms + _MIN_MS - self._clock.elapsed_ms()
            if rest_ms > 0:
                await self._clock.sleep(rest_ms)
            await self.write()

    async def write(self) -> bool:
        """Write a hint now; whether that succeeded."""
        self._written_ms = self._clock.elapsed_ms()
        self._stale = False
        try:
            number, floor = await self._mark()
        except ArcoError:  # losing a hint only costs time
            self._stale = True
            return False
        hint = Hint(format=FORMAT, number=number, floor_index=floor.index, floor=floor.floor)
        written = await self._store.put_hint(self._key, json.encode(hint))
        if written:
            self._written_number = number
        self._stale = not written or self._stale
        return written
