"""Tier 2 with one rule taken out at a time; every one of these must be caught."""

from .mutants import Mutant

# Noticed by the scenario.
OPERATIONS_MUTANTS = (
    Mutant(
        name="watermark not compared at a rebase",
        rule="P16",
        target="arco.compactor.domain_compactor:DomainCompactor._fold",
        old="_watermark(head) == new_segments.since\n            and retained_from_of(head)",
        new="retained_from_of(head)",
    ),
    Mutant(
        name="stream left without its seal",
        rule="P16",
        target="arco.ledger.follower:SegmentFollower.poll",
        old="if last_segment.seal:\n            del self._targets[last_segment.stream]",
        new=(
            "if last_segment.seal:\n"
            "            del self._targets[last_segment.stream]\n"
            "    idle = [each for each in self._watermark.open if each not in "
            "{segment.stream for segment in segments}\n"
            "            and self._targets[each].due_ms - self._targets[each].active_ms > 600_000]\n"
            "    for each in idle:\n"
            "        self._watermark = self._watermark.folded(each, -1, seal=True)\n"
            "        del self._targets[each]"
        ),
    ),
    Mutant(
        name="segments collected by the head",
        rule="P20",
        target="arco.compactor.garbage_collection:_Collection.collect_folded_segments",
        old="spent = self.kept_manifests.oldest",
        new="spent = self.kept_manifests.newest",
    ),
    Mutant(
        name="watermark moved past what was not folded",
        rule="P16",
        target="arco.compactor.domain_compactor:DomainCompactor._fold",
        old="folded = await self._fold_on_engine(job)",
        new=(
            "try:\n"
            "                folded = await self._fold_on_engine(job)\n"
            "            except Exception:\n"
            "                pass"
        ),
    ),
    Mutant(
        name="rows forgotten in a tail",
        rule="P20",
        target="arco.compactor.merge_part:_PartMerge.run",
        old="rows = await self._fold(tail_rows.values())",
        new=(
            "rows = await self._fold(tail_rows.values())\n"
            "    rows = retain(self.table, rows, self.job.retained_from.get(self.table.name))"
        ),
    ),
    Mutant(
        name="events with an id that was seen dropped",
        rule="P18",
        target="arco.compactor.fold_segments:RawSegment.decode",
        old="return decode_segment(self.raw, self.ref.stream, self.ref.seq)",
        new=(
            "lines, seen = [], set()\n"
            "    for line in decode_segment(self.raw, self.ref.stream, self.ref.seq).lines:\n"
            '        event_id = line.partition(b\'"event_id":"\')[2][:26]\n'
            "        if not event_id or event_id not in seen:\n"
            "            lines.append(line)\n"
            "        seen.add(event_id)\n"
            "    return Segment.of(self.ref.stream, self.ref.seq, lines)"
        ),
    ),
    Mutant(
        name="rebuild without the bounds of its time",
        rule="P20",
        target="arco.compactor.rebuild:_Rebuild._fold",
        old="retained_from=bounds,",
        new="retained_from={},",
    ),
)

# Noticed by one who sleeps at every point of a piece of work in turn.
POINT_MUTANTS = {
    Mutant(
        name="mark of the head not looked at",
        rule="P27",
        target="arco.compactor.publisher:is_below_orphan_mark",
        old="mark is not None and attempt <= mark",
        new="False",
    ): ("merge", "sleep beside a janitor"),
    Mutant(
        name="merge of files that are gone",
        rule="P26",
        target="arco.compactor.tail_merge:TailMerge.holds",
        old="if head is None:\n        return False",
        new="return head is not None",
    ): ("merge", "nap over a merge"),
    Mutant(
        name="orphans deleted without a mark",
        rule="P27",
        target="arco.compactor.garbage_collection:_Collection.collect_files",
        old="await compactor.mark_orphans(new_mark, self._domain)",
        new="self.kept_manifests.mark = new_mark",
    ): ("cycle", "sleep beside a janitor"),
    Mutant(
        name="forgetting on rows that were not seen",
        rule="P20",
        target="arco.compactor.tail_merge:TailMerge.holds",
        old="if self._removes_rows and head.rows_changed_at != self._input.rows_changed_at:",
        new="if False:",
    ): ("merge", "nap"),
    Mutant(
        name="rebuild on rows that were not seen",
        rule="P26",
        target="arco.compactor.rebuild:_Rebuild._is_same",
        old=(
            "and manifest.watermark == self._replayed.watermark\n"
            "        and manifest.rows_changed_at == self._replayed.rows_changed_at"
        ),
        new="",
    ): ("rebuild", "nap"),
    Mutant(
        name="rebuild with an index that was written before",
        rule="P20",
        target="arco.compactor.rebuild:_Rebuild._into_base",
        old="self._index = None",
        new="pass",
    ): ("rebuild", "nap over a merge"),
}

# Noticed where nobody else is there to do the work.
DEAF = Mutant(
    name="head not looked at again",
    rule="P8",
    target="arco.compactor.domain_compactor:DomainCompactor._is_outdated",
    old="if self._clock.elapsed_ms() - self._head_seen_ms < FRESH_MS / 2:",
    new="if True:",
)
