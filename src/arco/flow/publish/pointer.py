"""Pointers of plain Parquet tables: which files a table consists of, as a numbered chain for each.

Each number says what it changes; every 64th also names an object with all files of the table, so that
nobody has to read more than 64 numbers. The create of a number is what publishes (law 3). It names the
attempt that publishes, or that its partitions are kept for (P35).
"""

from collections import OrderedDict
from enum import StrEnum

import msgspec

from arco.catalog.publication import Publication
from arco.core.tasks import Task
from arco.flow.publish.wire import StagedFile
from arco.storage.chain import Chain
from arco.storage.link import Entry
from arco.storage.store import Store

POINTERS = "_catalog/parquet_pointers"
EVERY = 64  # so often all files are written down

_REMEMBERED = 10_000

Files = dict[str, tuple[StagedFile, ...]]  # by partition


class Mode(StrEnum):
    """What becomes of the files that are there."""

    APPEND = "append"
    REPLACE_PARTITION = "replace_partition"
    REPLACE = "replace"
    FENCE = "fence"  # nothing


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """How much a whole table holds."""

    rows: int = 0
    bytes: int = 0
    files: int = 0


class FullRef(msgspec.Struct, frozen=True, kw_only=True):
    """An object with all files of a table as of the number that names it."""

    key: str
    sha256: str
    bytes: int


class ParquetPointer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of one number. `data_number` is the last one that changed the data, perhaps this one."""

    mode: Mode
    publication: Publication
    totals: Totals
    data_number: int
    changed: Files = msgspec.field(default_factory=dict)
    full: FullRef | None = None


def parquet_pointer_of(entry: Entry) -> ParquetPointer:
    """What a number says."""
    return entry.body(ParquetPointer)


def publication_of(entry: Entry) -> Publication | None:
    """What a number publishes or fences."""
    return parquet_pointer_of(entry).publication


def pointers_of(store: Store, table_id: str) -> Chain:
    """The chain of one table."""
    return Chain(store, f"{POINTERS}/{table_id}")


class ParquetPointers:
    """The chains of all tables, as this process remembers them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._chains: OrderedDict[str, Chain] = OrderedDict()
        self._closing: set[Task[None]] = set()

    def chain(self, table_id: str) -> Chain:
        """The chain of one table."""
        chain = self._chains.get(table_id)
        if chain is None:
            chain = self._chains[table_id] = pointers_of(self._store, table_id)
            if len(self._chains) > _REMEMBERED:
                self._let_go(self._chains.popitem(last=False)[1])
        else:
            self._chains.move_to_end(table_id)
        return chain

    async def close(self) -> None:
        """A clean stop leaves fresh hints behind."""
        await self._store.runtime.tasks.gather(*(c.close() for c in self._chains.values()))
        for task in list(self._closing):
            await task.wait()

    def _let_go(self, chain: Chain) -> None:
        self._closing = {task for task in self._closing if not task.done()}
        self._closing.add(self._store.runtime.tasks.spawn(chain.close()))
