"""Requests and answers about the files of a plain Parquet table."""

import msgspec

from arco.catalog.publication import DispatchedAttempt


class StagedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A data file, by its path below the table's location."""

    path: str
    rows: int
    bytes: int


class FilesStaged(msgspec.Struct, frozen=True, kw_only=True):
    """Files that an attempt has written and asks to publish.

    `mode` is replace_partition, replace or append: what happens to the existing files.
    """

    table_id: str
    attempt: DispatchedAttempt
    mode: str
    files: dict[str, tuple[StagedFile, ...]]  # by partition; an empty tuple empties the partition


class FilesPublished(msgspec.Struct, frozen=True, kw_only=True):
    """The version that publishes staged files, with the totals of the table."""

    number: int
    rows: int
    bytes: int
    files: int


class TableVersionFiles(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a table: all its files, by partition, and which attempt made each partition."""

    table_id: str
    number: int
    location: str
    files: dict[str, tuple[StagedFile, ...]]
    materials: dict[str, str]
