"""Verification: checks everything that is kept of a domain and reports the first discrepancy.

It goes from the head down, because a newer object holds the hash of each older one: a manifest that of its
parent, of its commit record and of its files, a commit record those of its events. The head has only its
own checksum; an anchor that is kept outside the store shows that it is the right one. In event domains no
record names an event; there the watermark must advance by the segments that the commits folded.
Objects that are collected during a verification are not discrepancies.
"""

from dataclasses import dataclass

from arco.catalog.manifest import (
    Commit,
    FileRef,
    Manifest,
    manifests_of,
    read_commit,
    read_manifest,
)
from arco.compactor.chain_checks import ChainRange, check_side_chains, measure_chain, read_entry
from arco.compactor.collecting_store import Progress, ProgressCounter
from arco.compactor.event_checks import EventReplay, FoldedSegmentCheck, check_published_rows
from arco.compactor.manifest_checks import (
    check_added,
    check_advance,
    check_manifest,
    check_record,
    check_succession,
)
from arco.compactor.state_file_checks import StateFileCheck
from arco.compactor.verification_report import (
    Discrepancy,
    ProblemKind,
    VerificationCounts,
    VerificationReport,
    to_discrepancy,
)
from arco.core.errors import Corrupt
from arco.fold.tier1 import DOMAIN
from arco.storage.entry import Entry
from arco.storage.roles import Verb, may
from arco.storage.store import Store

_PARALLEL_READS = 16

Anchor = tuple[int, str]


async def verify(
    store: Store,
    domain: str,
    *,
    everything: bool = False,
    expect: Anchor | None = None,
    progress: Progress | None = None,
    sound: set[FileRef] | None = None,
) -> VerificationReport:
    """Check the state of a domain, and with `everything` the files of its history too.

    `expect` is the number of a manifest and its SHA-256 from an earlier report. `sound` is a cache of files
    whose contents were checked before: only their bytes are checked again; it grows. A role that may not
    read the ledger checks no events. `Unavailable` is raised: it is no result.
    """
    work = _Verification(
        store,
        domain,
        everything=everything,
        expect=expect,
        sound=set() if sound is None else sound,
        progress=ProgressCounter(progress),
    )
    while True:
        try:
            await work.run()
        except Discrepancy as discrepancy:
            if not await work.was_collected(discrepancy):
                return work.report(discrepancy)
            if not work.is_measured:
                continue
        return work.report(None)


@dataclass(frozen=True)
class _Step:
    """A manifest and its record, kept to check the manifest below."""

    entry: Entry
    manifest: Manifest
    record: Commit


class _Verification:
    """A verification in progress."""

    def __init__(
        self,
        store: Store,
        domain: str,
        *,
        everything: bool,
        expect: Anchor | None,
        sound: set[FileRef],
        progress: ProgressCounter,
    ) -> None:
        self._store = store
        self._tasks = store.runtime.tasks
        self._domain = domain
        self._everything = everything
        self._expect = expect
        self._progress = progress
        self._chain = manifests_of(store, domain)
        self._range = ChainRange(0, -1)
        self._head_sha256 = ""
        self._checked = VerificationCounts()
        self._files = StateFileCheck(store, domain, self._checked, sound, progress)
        self._replay = EventReplay(store, self._checked)
        self._folded = FoldedSegmentCheck(store, self._checked)
        self._has_events = may(store.role, Verb.GET, f"ledger/{domain}/_")
        self.is_measured = False

    async def run(self) -> None:
        """Check everything; raises the first `Discrepancy`."""
        self._range = await measure_chain(self._chain)
        self.is_measured = True
        head, floor = self._range.head, self._range.floor
        self._check_anchor_is_kept()
        self._progress.expect(head - floor + 1)
        child: _Step | None = None
        while (last_number := head if child is None else child.entry.number - 1) >= floor:
            # The head first and alone: it must be sound before its parent is checked against it.
            first = last_number if child is None else max(floor, last_number - _PARALLEL_READS + 1)
            steps = await self._read(first, last_number, child)
            for step in steps:
                await self._check(step, child)
                child = step
            await self._tasks.gather(*(self._check_events(step) for step in steps))
        if child is not None and child.entry.number == 0:
            check_added(child.record, child.manifest, None, 0)
            self._check_advance(child, None)
        await check_side_chains(self._store, self._domain, self._checked)

    async def was_collected(self, discrepancy: Discrepancy) -> bool:
        """Whether the object was collected since the verification started."""
        if discrepancy.number is None:
            return False
        try:
            floor = await self._chain.floor()
        except Corrupt:
            return False  # an unreadable floor excuses nothing
        return self._range.floor < floor and discrepancy.number < floor

    def report(self, discrepancy: Discrepancy | None) -> VerificationReport:
        """The report, with a discrepancy if there is one."""
        return VerificationReport(
            ok=discrepancy is None,
            domain=self._domain,
            floor=self._range.floor,
            head=self._range.head,
            head_sha256=self._head_sha256,
            checked=self._checked,
            problem=None if discrepancy is None else discrepancy.problem,
        )

    def _check_anchor_is_kept(self) -> None:
        """Whether the manifest of the anchor is kept."""
        if self._expect is None:
            return
        number, fault = self._expect[0], None
        if number < self._range.floor:
            fault = "was collected, so it cannot be compared: keep a newer anchor"
        elif number > self._range.head:
            fault = f"is missing: an anchor names it, and the chain ends at {self._range.head}"
        if fault is not None:
            raise Discrepancy(ProblemKind.ANCHOR, self._chain.key(max(number, 0)), fault)

    async def _read(self, first: int, last_number: int, child: _Step | None) -> list[_Step]:
        """The manifests `last_number` down to `first` and their records, each checked against its child."""
        numbers = range(last_number, first - 1, -1)
        links = await self._tasks.gather(
            *(read_entry(self._chain, number, ProblemKind.MANIFEST) for number in numbers)
        )
        child_entry = None if child is None else child.entry
        read: list[tuple[Entry, Manifest]] = []
        for number, entry in zip(numbers, links, strict=True):
            if entry is None:
                raise self._discrepancy(number, "is missing")
            self._check_link(entry, child_entry)
            read.append((entry, self._manifest(entry)))
            child_entry = entry
        records = await self._tasks.gather(*(self._record(*each) for each in read))
        return [_Step(*each, record) for each, record in zip(read, records, strict=True)]

    def _check_link(self, entry: Entry, child: Entry | None) -> None:
        number = entry.number
        if child is not None and child.record.parent_sha256 != entry.sha256():
            raise self._discrepancy(
                number, f"does not have the bytes that number {number + 1} names"
            )
        if (entry.record.parent_sha256 is None) != (number == 0):
            raise self._discrepancy(number, "names no parent" if number else "names a parent")
        if entry.record.tombstone:
            raise self._discrepancy(number, "is a tombstone")
        if child is not None and child.record.created_at <= entry.record.created_at:
            raise self._discrepancy(number + 1, "is not younger than its parent")
        if self._expect is not None and self._expect[0] == number:
            expected = self._expect[1].lower()
            if entry.sha256() != expected:
                fault = f"has SHA-256 {entry.sha256()}, and {expected} was expected"
                raise Discrepancy(ProblemKind.ANCHOR, self._chain.key(number), fault)

    def _manifest(self, entry: Entry) -> Manifest:
        try:
            manifest = read_manifest(entry)
        except Corrupt as problem:
            raise self._discrepancy(entry.number, str(problem)) from problem
        check_manifest(self._domain, entry.number, self._chain.key(entry.number), manifest)
        if entry.number == self._range.head:
            self._head_sha256 = entry.sha256()
        self._checked.manifests += 1
        self._checked.bytes += len(entry.raw)
        return manifest

    async def _record(self, entry: Entry, manifest: Manifest) -> Commit:
        ref = manifest.commit
        try:
            record = await read_commit(self._store, ref)
        except Corrupt as problem:
            raise to_discrepancy(ProblemKind.COMMIT, ref.path, problem, entry.number) from problem
        check_record(record, manifest, entry.number)
        self._checked.commits += 1
        return record

    async def _check(self, step: _Step, child: _Step | None) -> None:
        """Check a manifest against its child, and the files that it names."""
        if child is not None:
            number, path = child.entry.number, child.manifest.commit.path
            check_succession(child.manifest, step.manifest, number, self._chain.key(number))
            if child.record.parent != step.manifest.commit:
                fault = "does not follow the record of its parent"
                raise Discrepancy(ProblemKind.COMMIT, path, fault, number=number)
            check_added(child.record, child.manifest, step.manifest, number)
            self._check_advance(child, step.manifest)
        if child is None or self._everything:
            await self._files.check(step.manifest, step.record)

    def _check_advance(self, step: _Step, parent: Manifest | None) -> None:
        if self._domain != DOMAIN:
            number = step.entry.number
            check_advance(step.record, step.manifest, parent, number, self._chain.key(number))

    async def _check_events(self, step: _Step) -> None:
        if self._has_events and step.record.operations:
            rows = await self._replay.rows(step.record, step.entry.record.created_at)
            published = self._files.published(step.manifest, step.entry.number)
            if rows is not None and published is not None:
                check_published_rows(step.record, rows, published)
        if self._has_events and step.record.streams:
            await self._check_folded(step)
        self._progress.step()

    async def _check_folded(self, step: _Step) -> None:
        mark = step.manifest.watermark
        await self._folded.check_seals(step.record, mark)
        # Segments of the oldest manifest may be collected; those of later ones must be kept.
        if self._everything and step.entry.number > self._range.floor:
            await self._folded.check_segments(step.record, mark)

    def _discrepancy(self, number: int, fault: str) -> Discrepancy:
        return Discrepancy(ProblemKind.MANIFEST, self._chain.key(number), fault, number=number)
