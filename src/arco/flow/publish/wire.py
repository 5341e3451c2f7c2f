"""What is said about the files of a plain Parquet table."""

import msgspec

from arco.catalog.publication import Attempt


class StagedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A data file, by its path below the table's location."""

    path: str
    rows: int
    bytes: int


class FilesStaged(msgspec.Struct, frozen=True, kw_only=True):
    """Files that an attempt has written and wants to be seen.

    `mode` is replace_partition, replace or append: what becomes of the files that are there.
    """

    table_id: str
    attempt: Attempt
    mode: str
    files: dict[str, tuple[StagedFile, ...]]  # by partition; an empty tuple empties the partition


class FilesPublished(msgspec.Struct, frozen=True, kw_only=True):
    """The version that publishes them: its number, and what the whole table has now."""

    number: int
    rows: int
    bytes: int
    files: int


class FilesNow(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a table: all its files, by partition, and which attempt made each partition."""

    table_id: str
    number: int
    location: str
    files: dict[str, tuple[StagedFile, ...]]
    materials: dict[str, str]
