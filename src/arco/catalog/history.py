"""The commits of a domain, and the history of one object: both newest first, as far as they are kept.

A row names the commit that last changed it, and the manifest before that commit has the previous version of
the row; so each version costs a few reads, however many commits are between them.
"""

from datetime import datetime
from typing import NamedTuple

import msgspec

from arco.catalog.decision import AnyObject, id_of
from arco.catalog.manifest import Commit, CommitOperation, Manifest, read_commit, read_manifest
from arco.catalog.model import ColumnRow, TableRow
from arco.catalog.reader import SnapshotReader
from arco.catalog.snapshot import Snapshot
from arco.core.errors import Corrupt, NotFound
from arco.storage.entry import Entry


class CommitWithManifest(NamedTuple):
    """A commit record with the manifest that names it."""

    number: int
    commit: Commit
    manifest: Manifest
    sha256: str  # of the stored manifest
    published_at: datetime  # readers as of this time or later see it


async def list_commits(
    reader: SnapshotReader, *, before: int | None = None, limit: int
) -> list[CommitWithManifest]:
    """The commits below a number that are kept, newest first."""
    head = (await reader.chain.head()).number
    last_number = head if before is None else min(head, before - 1)
    first_number = max(last_number - limit + 1, await reader.chain.floor())
    if last_number < first_number:
        return []
    entries = await reader.chain.history(first_number, last_number)
    commits = await reader.store.runtime.tasks.gather(
        *(read_commit(reader.store, read_manifest(entry).commit) for entry in entries)
    )
    oldest_first = [_numbered(*pair) for pair in zip(entries, commits, strict=True)]
    return oldest_first[::-1]


async def get_commit(reader: SnapshotReader, number: int) -> CommitWithManifest:
    """One commit, or `NotFound`."""
    snapshot = await reader.at_number(number)
    if snapshot.manifest is None or snapshot.entry is None:
        raise NotFound(f"there is no commit {number}")
    commit = await read_commit(reader.store, snapshot.manifest.commit)
    if commit.number != number:
        raise Corrupt(f"the record of commit {number} says that it is {commit.number}")
    return _numbered(snapshot.entry, commit)


def _numbered(entry: Entry, commit: Commit) -> CommitWithManifest:
    manifest = read_manifest(entry)
    return CommitWithManifest(
        entry.number, commit, manifest, entry.sha256(), entry.record.created_at
    )


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """An object as one commit left it; without `operation` if the commit was collected."""

    number: int
    commit_ulid: str | None
    at: datetime
    operation: str | None
    actor: str
    object: AnyObject
    columns: tuple[ColumnRow, ...] = ()


class Versions(NamedTuple):
    """One page of a history; the next begins at the snapshot `rest`, None at the end."""

    items: list[Version]
    rest: int | None


async def history(
    reader: SnapshotReader,
    object_id: str,
    *,
    start: Snapshot | None = None,
    limit: int,
    most_columns: int,
) -> Versions:
    """The versions of an object up to a snapshot, dropped or not; `NotFound` if it is unknown.

    A page has at most `limit` of them, and ends with the one that makes their columns `most_columns`.
    """
    snapshot = start or await reader.head()
    stored = await snapshot.find(object_id, dropped=True)
    versions: list[Version] = []
    column_count = 0
    while True:
        versions.append(await _version(reader, snapshot, stored.row, stored.commit))
        column_count += len(versions[-1].columns)
        await reader.store.runtime.tasks.turn()
        try:
            snapshot = await reader.at_number(stored.commit - 1)
            stored = await snapshot.find(object_id, dropped=True)
        except NotFound:
            return Versions(versions, None)  # this was the first, or older ones were collected
        if len(versions) >= limit or column_count >= most_columns:
            return Versions(versions, snapshot.number)


async def _version(
    reader: SnapshotReader, snapshot: Snapshot, row: AnyObject, number: int
) -> Version:
    columns: tuple[ColumnRow, ...] = ()
    if isinstance(row, TableRow):
        columns = tuple(column.row for column in await snapshot.columns(row.table_id))
    try:
        made_by = (await reader.at_number(number)).manifest
    except NotFound:
        made_by = None
    commit = None if made_by is None else await read_commit(reader.store, made_by.commit)
    operation = None if commit is None else await _last_operation(snapshot, row, commit.operations)
    return Version(
        number=number,
        commit_ulid=None if commit is None else commit.commit_ulid,
        at=row.updated_at if operation is None else operation.at,
        operation=None if operation is None else operation.operation,
        actor=row.updated_by if operation is None else operation.actor,
        object=row,
        columns=columns,
    )


async def _last_operation(
    snapshot: Snapshot, row: AnyObject, operations: tuple[CommitOperation, ...]
) -> CommitOperation | None:
    """The last operation on the object or one of its containers: a rename rewrites the rows below it."""
    target: AnyObject | None = row
    while target is not None:
        matching = [each for each in operations if each.object_id == id_of(target)]
        if matching:
            return matching[-1]
        container = await snapshot.container(target)
        target = None if container is None else container.row
    return None
