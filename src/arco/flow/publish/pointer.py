"""Pointers of plain Parquet tables: a chain for each table whose entries are the versions of its files.

Each entry has the files that it changes; every 64th also names an object with all files of the table, so
that a reader needs at most 64 entries. Creating an entry is what publishes (law 3). It names the attempt
that publishes, or that a fence reserves its partitions for (P35).
"""

from enum import StrEnum

import msgspec

from arco.catalog.publication import Publication
from arco.flow.publish.wire import StagedFile
from arco.storage.chain import Chain, ChainCache
from arco.storage.entry import Entry
from arco.storage.store import Store

POINTERS = "_catalog/parquet_pointers"
FULL_LIST_INTERVAL = 64  # every entry with a multiple of this number lists all files


Files = dict[str, tuple[StagedFile, ...]]  # by partition


class PublishMode(StrEnum):
    """What a version does with the existing files."""

    APPEND = "append"
    REPLACE_PARTITION = "replace_partition"
    REPLACE = "replace"
    FENCE = "fence"  # changes no files


class TableTotals(msgspec.Struct, frozen=True, kw_only=True):
    """The rows, bytes and files of a table."""

    rows: int = 0
    bytes: int = 0
    files: int = 0


class FullListRef(msgspec.Struct, frozen=True, kw_only=True):
    """An object with all files of a table, as of the entry that names it."""

    key: str
    sha256: str
    bytes: int


class ParquetPointer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of an entry. `data_number` is the last entry that changed data, perhaps this one."""

    mode: PublishMode
    publication: Publication
    totals: TableTotals
    data_number: int
    changed: Files = msgspec.field(default_factory=dict)
    full: FullListRef | None = None


def parquet_pointer_of(entry: Entry) -> ParquetPointer:
    """The body of an entry."""
    return entry.body(ParquetPointer)


def publication_of(entry: Entry) -> Publication | None:
    """The publication or fence of an entry."""
    return parquet_pointer_of(entry).publication


def pointers_of(store: Store, table_id: str) -> Chain:
    """The chain of one table."""
    return Chain(store, f"{POINTERS}/{table_id}")


class ParquetPointers(ChainCache):
    """The chains of all tables by table id."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, POINTERS)
