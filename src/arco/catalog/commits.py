"""The commits of a domain: who changed what, when, as the chain of manifests names them."""

from datetime import datetime
from typing import NamedTuple

from arco.catalog.manifest import Commit, Manifest, read_commit, read_manifest
from arco.catalog.reader import SnapshotReader
from arco.core.errors import Corrupt, NotFound
from arco.storage.entry import Entry


class Numbered(NamedTuple):
    """A commit with the manifest that names it."""

    number: int
    commit: Commit
    manifest: Manifest
    sha256: str  # of the manifest, as it is stored
    published_at: datetime  # from when on a reader as of a time sees it


async def list_commits(
    reader: SnapshotReader, *, before: int | None = None, limit: int
) -> list[Numbered]:
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


async def get_commit(reader: SnapshotReader, number: int) -> Numbered:
    """One commit, or `NotFound`."""
    snapshot = await reader.at_number(number)
    if snapshot.manifest is None or snapshot.entry is None:
        raise NotFound(f"there is no commit {number}")
    commit = await read_commit(reader.store, snapshot.manifest.commit)
    if commit.number != number:
        raise Corrupt(f"the record of commit {number} says that it is {commit.number}")
    return _numbered(snapshot.entry, commit)


def _numbered(entry: Entry, commit: Commit) -> Numbered:
    manifest = read_manifest(entry)
    return Numbered(entry.number, commit, manifest, entry.sha256(), entry.record.created_at)
