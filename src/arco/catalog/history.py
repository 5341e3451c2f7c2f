"""The history of one object: every version of it that is kept, newest first.

A row names the commit that last changed it, and the manifest before that commit has the row as it was until
then; so the way back costs a few reads for each version, however many commits lie between them.
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
from arco.storage.link import Entry


class CommitWithManifest(NamedTuple):
    """A commit with the manifest that names it."""

    number: int
    commit: Commit
    manifest: Manifest
    sha256: str  # of the manifest, as it is stored
    published_at: datetime  # from when on a reader as of a time sees it


async def list_commits(
    reader: SnapshotReader, *, before: int | None = None, limit: int
) -> list[CommitWithManifest]:
    """Commits below a number, newest first, as far down as they are kept."""
    head = (await reader.chain.head()).number
    last = head if before is None else min(head, before - 1)
    first = max(last - limit + 1, await reader.chain.floor())
    if last < first:
        return []
    entries = await reader.chain.history(first, last)
    commits = await reader.store.runtime.tasks.gather(
        *(read_commit(reader.store, read_manifest(entry).commit) for entry in entries)
    )
    found = [_numbered(entry, commit) for entry, commit in zip(entries, commits, strict=True)]
    return found[::-1]


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
    return CommitWithManifest(entry.number, commit, manifest, entry.sha256(), entry.link.created_at)


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """An object as one commit left it. Without an operation its commit is no longer kept."""

    number: int
    commit_ulid: str | None
    at: datetime
    operation: str | None
    actor: str
    object: AnyObject
    columns: tuple[ColumnRow, ...] = ()


class Versions(NamedTuple):
    """One page of a history; older ones are found from the snapshot `rest`, or (None) there are none."""

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
    found = await snapshot.find(object_id, dropped=True)
    versions: list[Version] = []
    told_columns = 0
    while True:
        versions.append(await _version(reader, snapshot, found.row, found.commit))
        told_columns += len(versions[-1].columns)
        await reader.store.runtime.tasks.turn()
        try:
            snapshot = await reader.at_number(found.commit - 1)
            found = await snapshot.find(object_id, dropped=True)
        except NotFound:
            return Versions(versions, None)  # that was the first, or older ones are not kept
        if len(versions) >= limit or told_columns >= most_columns:
            return Versions(versions, snapshot.number)


async def _version(
    reader: SnapshotReader, snapshot: Snapshot, row: AnyObject, number: int
) -> Version:
    columns: tuple[ColumnRow, ...] = ()
    if isinstance(row, TableRow):
        columns = tuple(found.row for found in await snapshot.columns(row.table_id))
    try:
        made_by = (await reader.at_number(number)).manifest
    except NotFound:
        made_by = None
    commit = None if made_by is None else await read_commit(reader.store, made_by.commit)
    deed = None if commit is None else await _deed(snapshot, row, commit.deeds)
    return Version(
        number=number,
        commit_ulid=None if commit is None else commit.commit_ulid,
        at=row.updated_at if deed is None else deed.at,
        operation=None if deed is None else deed.operation,
        actor=row.updated_by if deed is None else deed.actor,
        object=row,
        columns=columns,
    )


async def _deed(
    snapshot: Snapshot, row: AnyObject, deeds: tuple[CommitOperation, ...]
) -> CommitOperation | None:
    """What was done to the object last, or to something it lies in: a rename reaches those below."""
    above: AnyObject | None = row
    while above is not None:
        mine = [deed for deed in deeds if deed.object_id == id_of(above)]
        if mine:
            return mine[-1]
        container = await snapshot.container(above)
        above = None if container is None else container.row
    return None
