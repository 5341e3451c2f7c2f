"""Shortening the tail of the catalog: its newest files become one combined file (ADR 0078).

A merge into the base rewrites a file for each bucket with new rows, and the rows of a few commits lie in
almost as many buckets. So a long tail is only shortened, until it has enough rows to be worth a merge. A
run of newest files is replaced, so that the order of the files stays that of the commits (P22); it
reaches back as far as a file has at most twice the rows of all newer ones together. So the tail of n
commits has about log n files above the newest, and each row is rewritten about log n times.
"""

from collections.abc import Mapping

import pyarrow as pa

from arco.catalog.manifest import CommitKind, FileRef, Manifest, Ref
from arco.compactor.domains import combined_path
from arco.compactor.publisher import (
    ManifestChange,
    Publisher,
    manifest_at,
    new_attempt_ulid,
    orphan_mark,
    publish_on_head,
)
from arco.compactor.state_file_writer import encode_combined_file
from arco.core.ids import new_ulid
from arco.fold.fold import fold
from arco.fold.tier1 import TIER1
from arco.storage.chain import Head

MAX_TAIL = 16  # files
BASE_ROWS = 16_384  # rows in the tail, of all tables, that are worth a merge into the base

_MIN_RUN = 4

# By table, which of its files go into the new one.
Run = dict[str, tuple[FileRef, ...]]


def is_long(manifest: Manifest) -> bool:
    """Whether the tail has so many files that it should become shorter."""
    return len(_rows_by_path(manifest)) >= MAX_TAIL


def is_large(manifest: Manifest) -> bool:
    """Whether the tail has so many rows that it should go into the base."""
    return sum(_rows_by_path(manifest).values()) > BASE_ROWS


def newest_run(manifest: Manifest) -> Run:
    """The newest files of the tail that become one; empty if it is not worth it."""
    paths: list[str] = []
    newer = 0
    for path, rows in reversed(_rows_by_path(manifest).items()):
        if len(paths) >= _MIN_RUN and rows > 2 * newer:
            break
        paths.append(path)
        newer += rows
    if len(paths) < _MIN_RUN:
        return {}
    run = {
        name: tuple(ref for ref in files if ref.path in paths)
        for name, files in manifest.tail.items()
    }
    return {name: refs for name, refs in run.items() if refs}


async def shorten_tail(publisher: Publisher) -> Head | None:
    """Make the tail shorter; None if that is not worth it, or a merge was first."""
    tasks = publisher.store.runtime.tasks
    head = publisher.chain.remembered() or await publisher.chain.head()
    manifest = manifest_at(head)
    run = {} if manifest is None else newest_run(manifest)
    if manifest is None or not run:
        return None
    attempt = new_attempt_ulid(publisher.store.runtime, orphan_mark(manifest))
    path = combined_path(publisher.domain, attempt)
    rows = {
        name: await tasks.gather(*(publisher.read(TIER1[name], ref) for ref in refs))
        for name, refs in run.items()
    }

    def combine() -> tuple[dict[str, FileRef], Ref, bytes, dict[str, pa.Table]]:
        folded = {name: fold(TIER1[name], pa.concat_tables(each)) for name, each in rows.items()}
        return *encode_combined_file(TIER1, folded, path), folded

    # In a thread: this process serves requests meanwhile.
    new, file, raw, folded = await tasks.in_thread(combine)
    await publisher.create([(file, raw)])
    for name, each in folded.items():
        publisher.written.keep(file.sha256, TIER1[name], each)
    commit_ulid = new_ulid(publisher.store.runtime)

    def change(parent: Manifest | None) -> ManifestChange:
        return _change(parent or manifest, run, new, file, commit_ulid)

    return await publish_on_head(
        publisher, head, attempt, lambda parent: _has_all(parent, run), change
    )


def _rows_by_path(manifest: Manifest) -> dict[str, int]:
    """The rows in each file of the tail, oldest file first."""
    newest: dict[str, int] = {}
    rows: dict[str, int] = {}
    for files in manifest.tail.values():
        for ref in files:
            newest[ref.path] = max(ref.newest, newest.get(ref.path, -1))
            rows[ref.path] = rows.get(ref.path, 0) + ref.rows
    return {path: rows[path] for path in sorted(rows, key=lambda path: (newest[path], path))}


def _has_all(head: Manifest | None, run: Run) -> bool:
    """Whether a manifest still names all files of a run."""
    tail = {} if head is None else head.tail
    return all(set(refs) <= set(tail.get(name, ())) for name, refs in run.items())


def _change(
    parent: Manifest, run: Run, new: Mapping[str, FileRef], file: Ref, commit_ulid: str
) -> ManifestChange:
    tail = dict(parent.tail)
    for name, refs in run.items():
        kept = [ref for ref in tail[name] if ref not in refs]
        tail[name] = tuple(sorted([*kept, new[name]], key=lambda ref: ref.newest))
    return ManifestChange(
        kind=CommitKind.MERGE,
        commit_ulid=commit_ulid,
        tail=tail,
        base=parent.base,
        added=(file,),
        removed=tuple(sorted({ref.path for refs in run.values() for ref in refs})),
    )
