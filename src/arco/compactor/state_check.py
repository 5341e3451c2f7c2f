"""The files of a state, each checked once however many manifests name it."""

from collections.abc import Iterable

import pyarrow as pa

from arco.catalog.manifest import BaseIndex, Commit, FileRef, Manifest, Ref, read_index
from arco.compactor.content import fault_in
from arco.compactor.domains import folder_of, tables_of
from arco.compactor.meter import Meter
from arco.compactor.report import Checked, ProblemKind, Wrong, as_wrong
from arco.core.errors import Corrupt
from arco.core.hashing import sha256_hex
from arco.fold.tier1 import DOMAIN
from arco.storage.store import Store

_AT_ONCE = 16

NOTHING = BaseIndex(tables={})


class StateCheck:
    """Checks the files of one manifest after the other, newest first."""

    def __init__(
        self, store: Store, domain: str, checked: Checked, sound: set[FileRef], meter: Meter
    ) -> None:
        self._store = store
        self._domain = domain
        self._checked = checked
        self._sound = sound
        self._meter = meter
        self._seen: dict[str, FileRef | Ref] = {}  # by path, with what was claimed of it
        self._index: tuple[Ref | None, BaseIndex] = (None, NOTHING)
        self._tails: dict[tuple[str, int], pa.Table] = {}  # by table and commit, until asked for

    async def check(self, manifest: Manifest, record: Commit) -> None:
        """`Wrong` if a file that a manifest names is not as it must be."""
        number = record.number
        index = await self._read_index(manifest.base.index, number)
        files = list(_files(manifest, index))
        self._meter.expect(sum(ref.path not in self._seen for _, ref, _ in files))
        for at in range(0, len(files), _AT_ONCE):
            await self._store.runtime.tasks.gather(
                *(
                    self._check_file(name, ref, number, in_tail=in_tail)
                    for name, ref, in_tail in files[at : at + _AT_ONCE]
                )
            )
        named = {(ref.path, ref.sha256) for _, ref, _ in files}
        named |= {(ref.path, ref.sha256) for ref in (manifest.base.index,) if ref}
        for added in record.added:
            if (added.path, added.sha256) not in named:
                fault = f"tells that {added.path} was added, and its manifest does not name it"
                raise Wrong(ProblemKind.COMMIT, manifest.commit.path, fault, number=number)

    def published(self, manifest: Manifest, number: int) -> dict[str, pa.Table] | None:
        """The rows that a commit has added, by table; None if some of them were not read."""
        names = [name for name, files in manifest.tail.items() if files[-1].newest == number]
        found = {name: self._tails.pop((name, number), None) for name in names}
        rows = {name: each for name, each in found.items() if each is not None}
        return rows if len(rows) == len(names) else None

    async def _read_index(self, ref: Ref | None, number: int) -> BaseIndex:
        if ref is None:
            return NOTHING
        if self._index[0] == ref:
            return self._index[1]
        try:
            index = await read_index(self._store, ref)
        except Corrupt as problem:
            raise as_wrong(ProblemKind.INDEX, ref.path, problem, number) from problem
        for name, buckets in index.tables.items():
            for bucket, file in buckets.items():
                if tuple(map(str, file.buckets)) != (bucket,):
                    fault = f"has {file.path} in bucket {bucket} of {name}"
                    raise Wrong(ProblemKind.INDEX, ref.path, fault, number=number)
        self._index = (ref, index)
        if self._is_new(ref, number):
            self._checked.files += 1
        return index

    async def _check_file(self, name: str, ref: FileRef, number: int, *, in_tail: bool) -> None:
        if not self._is_new(ref, number):
            return
        table = tables_of(self._domain).get(name)
        if table is None or not ref.path.startswith(folder_of(self._domain, name, ref.visibility)):
            raise _wrong(ref, f"is no file of a table {name} that is known here", number)
        raw = await self._read(ref, number)
        if ref not in self._sound:
            rows = await self._store.runtime.tasks.in_thread(
                lambda: fault_in(table, ref, raw, in_tail=in_tail)
            )
            if isinstance(rows, str):
                raise _wrong(ref, rows, number)
            self._sound.add(ref)
            if in_tail and self._domain == DOMAIN:
                self._tails[name, ref.newest] = rows
        self._checked.files += 1
        self._checked.rows += ref.rows
        self._checked.bytes += ref.bytes
        self._meter.step()

    async def _read(self, ref: FileRef, number: int) -> bytes:
        raw = await self._store.find(ref.path, size_bytes=ref.bytes)
        if raw is None:
            raise _wrong(ref, "is missing, and a manifest names it", number)
        if len(raw) != ref.bytes:
            raise _wrong(ref, f"has {len(raw)} bytes, not {ref.bytes}", number)
        if sha256_hex(raw) != ref.sha256:
            raise _wrong(ref, "does not have the bytes that its manifest names", number)
        return raw

    def _is_new(self, ref: FileRef | Ref, number: int) -> bool:
        """Whether an object is met for the first time; `Wrong` if two manifests disagree about it."""
        known = self._seen.get(ref.path)
        if known is not None and known != ref:
            fault = "is named by two manifests that differ about it"
            raise Wrong(ProblemKind.FILE, ref.path, fault, number=number)
        self._seen[ref.path] = ref
        return known is None


def _files(manifest: Manifest, index: BaseIndex) -> Iterable[tuple[str, FileRef, bool]]:
    """Every file of a state: its table, and whether it is of the tail."""
    for name, tail in manifest.tail.items():
        yield from ((name, ref, True) for ref in tail)
    for name, ref in manifest.base.whole.items():
        yield name, ref, False
    for name, buckets in index.tables.items():
        yield from ((name, ref, False) for ref in buckets.values())


def _wrong(ref: FileRef, fault: str, number: int) -> Wrong:
    return Wrong(ProblemKind.FILE, ref.path, fault, number=number)
