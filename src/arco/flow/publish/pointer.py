"""Pointers of plain Parquet tables: which files a table consists of, as a numbered chain for each.

Each number says what it changes; every 64th also names an object with all files of the table, so that
nobody has to read more than 64 numbers. The create of a number is what publishes (law 3). It names the
attempt that publishes, or that its partitions are kept for (P35).
"""

from enum import StrEnum

import msgspec

from arco.catalog.publication import Publication
from arco.flow.publish.wire import StagedFile
from arco.storage.chain import Chain
from arco.storage.chains import Chains
from arco.storage.link import Entry
from arco.storage.store import Store

POINTERS = "_catalog/parquet_pointers"
EVERY = 64  # so often all files are written down


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


class ParquetPointers(Chains):
    """The chains of all tables, by their ids."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, POINTERS)
