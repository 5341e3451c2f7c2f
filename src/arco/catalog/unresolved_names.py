"""Unresolved names: ids of tables that may be dropped although the catalog still has their names (P31).

A drop is decided by a tombstone and releases the name afterwards; a transaction adds the names of new
tables before it is decided. So that lists are exact without reading the chain of every table, such an
operation records the table's id here first. Each entry of this chain holds all unresolved ids, so a
reader needs its head alone: one request, usually a miss.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

import msgspec

from arco.core.errors import Conflict
from arco.storage.chain import Chain, Head
from arco.storage.store import Store

# The stored path keeps the old name of these entries: existing stores have it.
UNRESOLVED_NAMES = "_catalog/iceberg_doubts/names"

# A younger entry may belong to an operation that has recorded it and not begun yet.
_SETTLED_MS = 15 * 60_000

# Whether an id stays unresolved: the catalog still has its name, and it is not known to be live. Called
# for earlier ids when one is added. The flag: is the id old enough for a live table to settle it?
StillOpen = Callable[[str, bool], Awaitable[bool]]


class UnresolvedNamesEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The body of one chain entry: all unresolved ids, with the time they were added (ms)."""

    open: dict[str, int]


@dataclass(frozen=True)
class UnresolvedIds:
    """The unresolved ids as of an entry of the chain; number -1 for an empty chain."""

    number: int = -1
    open: frozenset[str] = frozenset()


class UnresolvedNames:
    """The unresolved names of one workspace."""

    def __init__(self, store: Store) -> None:
        self._clock = store.runtime.clock
        self.chain = Chain(store, UNRESOLVED_NAMES)

    async def open(self) -> frozenset[str]:
        """The ids that are unresolved now."""
        return (await self.read_ids()).open

    async def read_ids(self) -> UnresolvedIds:
        """The ids that are unresolved now, and the number of the entry."""
        head = await self.chain.head()
        return UnresolvedIds(head.number, frozenset(_ids(head)))

    async def add(self, table_ids: Iterable[str], still_open: StillOpen) -> None:
        """Record ids before an operation that makes their names unresolved.

        Also if they are recorded: another process may be removing them now.
        """
        new_ids = tuple(table_ids)
        while True:
            head, now = await self.chain.head(), self._clock.now_ms()
            recorded = _ids(head)
            still_unresolved = {
                each: since
                for each, since in recorded.items()
                if each not in new_ids and await still_open(each, now - since > _SETTLED_MS)
            }
            try:
                await self.chain.append(
                    head, UnresolvedNamesEntry(open=still_unresolved | dict.fromkeys(new_ids, now))
                )
                return
            except Conflict:
                continue


def _ids(head: Head) -> dict[str, int]:
    return {} if head.entry is None else head.entry.body(UnresolvedNamesEntry).open
