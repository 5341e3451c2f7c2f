"""Merging in Tier 2: an engine folds files into fewer, and what it has made is published (P26).

A merge names its inputs: if the head still has them all, it is published there, whatever was folded
meanwhile. Rows that are no longer retained are left out of the base (P20). A merge that leaves some out is
published only on the rows that it has seen, so that it is known which rows were left out of what, and a
rebuild can do the same. If others keep changing rows meanwhile, the next merge leaves nothing out.
"""

from arco.catalog.manifest import Base, CommitKind, FileRef, Manifest, Ref
from arco.compactor.base_files import BaseFiles
from arco.compactor.job import Engine, Merged, MergeJob, MergePart
from arco.compactor.publish import Change, NewFile, Publisher, attempt_ulid, mark_of
from arco.compactor.rebase import publish_on_head
from arco.core.ids import new_ulid
from arco.fold.table import StateTable
from arco.storage.chain import Head


class TailMerge:
    """One merge on its way."""

    def __init__(
        self,
        publisher: Publisher,
        manifest: Manifest,
        base: BaseFiles,
        tables: dict[str, StateTable],
        parts: tuple[MergePart, ...],
    ) -> None:
        runtime = publisher.store.runtime
        self._publisher = publisher
        self._input = manifest
        self._base = base
        self._tables = tables
        self._parts = parts
        self._inputs = {ref.path for part in parts for ref in part.tail}
        self._removed = self._inputs | {ref.path for part in parts for ref in part.base.values()}
        self._attempt = attempt_ulid(runtime, mark_of(manifest))
        self._commit_ulid = new_ulid(runtime)
        self._tail: dict[str, list[FileRef]] = {}
        self._new_base: Base | None = None
        self._added: list[Ref] = []
        self._forgets = False
        self.files = 0
        self.size_bytes = 0

    async def fold(self, engine: Engine, *, forget: bool = True) -> None:
        """Have the engine do the work, and name the new base."""
        job = MergeJob(
            domain=self._publisher.domain,
            attempt=self._attempt,
            parts=self._parts,
            retained_from=self._input.retained_from if forget else {},
        )
        merged = await engine.merge(job)
        self._forgets = merged.forgotten > 0
        self._take(merged)
        if any(part.into_base for part in self._parts):
            await self._name_base()

    async def publish(self, head: Head) -> Head | None:
        """Publish on the newest head that still has all inputs; None if none has."""
        return await publish_on_head(self._publisher, head, self._attempt, self.holds, self._change)

    def _take(self, merged: Merged) -> None:
        into_base = {part.table for part in self._parts if part.into_base}
        for part in self._parts:
            if part.into_base:
                for bucket in part.buckets:
                    self._base.put(self._tables[part.table], bucket, None)
        for new in merged.files:
            self._note(new.file)
            if new.table in into_base:
                self._base.put(self._tables[new.table], new.file.buckets[0], new.file)
            else:
                self._tail.setdefault(new.table, []).append(new.file)

    async def _name_base(self) -> None:
        old = self._input.base.index
        if not any(
            part.into_base and self._tables[part.table].bucket is not None for part in self._parts
        ):
            self._new_base = self._base.base(old)
            return
        ref, raw = self._base.new_index(self._publisher.domain, self._attempt)
        index: NewFile = (ref, raw)
        await self._publisher.create([index])
        self._added.append(ref)
        self.size_bytes += len(raw)
        if old is not None:
            self._removed.add(old.path)
        self._new_base = self._base.base(ref)

    def _note(self, file: FileRef) -> None:
        self.files += 1
        self.size_bytes += file.bytes
        self._added.append(Ref(path=file.path, sha256=file.sha256))

    def holds(self, head: Manifest | None) -> bool:
        """Whether it can still be published on `head`."""
        if head is None:
            return False
        if self._forgets and head.rows_changed_at != self._input.rows_changed_at:
            return False
        tail = {ref.path for files in head.tail.values() for ref in files}
        has_base = self._new_base is None or head.base == self._input.base
        return has_base and self._inputs <= tail

    def _change(self, head: Manifest | None) -> Change:
        held = {} if head is None else head.tail
        names = dict.fromkeys([*held, *self._tail])
        return Change(
            kind=CommitKind.MERGE,
            commit_ulid=self._commit_ulid,
            tail={
                name: (
                    *(ref for ref in held.get(name, ()) if ref.path not in self._inputs),
                    *self._tail.get(name, ()),
                )
                for name in names
            },
            base=self._new_base or (Base() if head is None else head.base),
            changes_rows=self._forgets,
            added=tuple(self._added),
            removed=tuple(sorted(self._removed)),
        )
