"""The auditor of Tier 2: decides again what every manifest should hold, from the events alone.

A fold must have added the rows of its segments and nothing else; a merge, a mark and a rebuild must have
left the rows as they were, but for those that a merge into the base may forget. Step by step this says that
every stored event was folded exactly once. Tables of which nothing was ever forgotten are held, in the end,
against all events that were ever stored, folded in one go.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq

from arco.catalog.manifest import CommitKind, Counts
from arco.events.read import SegmentRows, read_segment
from arco.fold.fold import conform, fold
from arco.fold.tier2 import TIER2
from arco.ledger.segment import Segment

from .operations_history import History, Step
from .operations_notes import OperationsNotes

Rows = dict[str, pa.Table]


class OperationsAudit:
    """Judges one domain of one run."""

    def __init__(self, history: History, notes: OperationsNotes) -> None:
        self._history = history
        self._notes = notes
        self._tables = TIER2[history.domain]
        self._read: dict[str, pa.Table] = {}
        self._cached_rows: dict[tuple[str, ...], list[dict[str, object]]] = {}
        self._readings: dict[tuple[str, int], SegmentRows] = {}  # without bounds
        self.tally: Counter[str] = Counter()

    def violations(self) -> list[str]:
        """What is wrong, one sentence each."""
        violations = [*self._history.wrong, *self._misplaced()]
        if violations:
            return violations  # what rests on it would only repeat it
        parent: Step | None = None
        for number, step in enumerate(self._history.steps):
            violations += [
                f"manifest {number}, a {step.record.kind}: {each}"
                for each in self._check(step, parent)
            ]
            parent = step
        if parent is not None and not violations:
            violations += self._check_end(parent)
        return violations

    def _misplaced(self) -> list[str]:
        """Acknowledged events that are not where their receipt says."""
        violations = []
        for acknowledged in self._notes.acknowledged:
            if acknowledged.domain != self._history.domain:
                continue
            receipt = acknowledged.receipt
            segment = self._history.segments.get((receipt.stream, receipt.seq))
            lines = () if segment is None else segment.lines[receipt.first_line - 1 :]
            if list(lines[: receipt.events]) != acknowledged.lines:
                violations.append(f"events were acknowledged at {receipt}, and are not there")
        return violations

    def _check(self, step: Step, parent: Step | None) -> list[str]:
        """What is wrong with one manifest, held against its parent."""
        self.tally[f"manifests: {step.record.kind}"] += 1
        if step.record.kind is CommitKind.FOLD:
            return self._check_fold(step, parent)
        if parent is None:
            return ["is the first, and has folded nothing"]
        if step.news or step.manifest.watermark != parent.manifest.watermark:
            return ["has moved the watermark"]
        if step.manifest.retained_from != parent.manifest.retained_from:
            return ["has moved the bounds of what is retained"]
        return [
            wrong
            for name in sorted({*step.files, *parent.files})
            for wrong in self._check_same(name, step, parent)
        ]

    def _check_fold(self, step: Step, parent: Step | None) -> list[str]:
        bounds = {} if parent is None else parent.manifest.retained_from
        reading = SegmentRows.joined([self._reading(each, bounds) for each in step.news])
        expected = self._folded(reading)
        violations = []
        added: dict[str, list[str]] = {}
        for name in sorted({*step.files, *({} if parent is None else parent.files)}):
            before = [] if parent is None else parent.files.get(name, [])
            if set(before) - set(step.files.get(name, ())):
                violations.append(f"has lost files of {name}")
            new = [path for path in step.files.get(name, ()) if path not in before]
            if new:
                added[name] = new
        if {*added} != {*expected}:
            violations.append(f"has new files of {sorted(added)}, not of {sorted(expected)}")
        violations += [
            f"has other rows of {name} than its segments"
            for name, paths in added.items()
            if name in expected and self._rows(name, paths) != expected[name]
        ]
        counts = step.record.counts or Counts()
        published = (counts.segments, counts.events, counts.late, counts.quarantined)
        if published != (len(step.news), reading.events, reading.late, reading.quarantined):
            violations.append(
                f"counts {published}, and has folded {len(step.news)} segments: {reading.events}"
            )
        self.tally.update({"events folded": reading.events, "events late": reading.late})
        self.tally["events quarantined"] += reading.quarantined
        return violations

    def _check_same(self, name: str, step: Step, parent: Step) -> list[str]:
        """What else than forgetting has become of the rows of a table."""
        paths, old_paths = step.files.get(name, []), parent.files.get(name, [])
        if sorted(paths) == sorted(old_paths):
            return []
        rows, old = self._rows(name, paths), self._rows(name, old_paths)
        if rows == old:
            return []
        if step.record.kind is not CommitKind.MERGE:
            return [f"has other rows of {name} than its parent"]
        old_by_key, rows_by_key = (self._by_key(name, each) for each in (old, rows))
        missing_rows = {key: row for key, row in old_by_key.items() if key not in rows_by_key}
        if any(old_by_key.get(key) != row for key, row in rows_by_key.items()):
            return [f"has changed rows of {name}"]
        bound = step.manifest.retained_from.get(name)
        if bound is None or any(not _is_before(row, bound) for row in missing_rows.values()):
            return [f"has lost rows of {name}"]
        if step.manifest.rows_changed_at != step.record.number:
            return [f"has forgotten rows of {name} without saying so"]
        self.tally["rows forgotten"] += len(missing_rows)
        return []

    def _check_end(self, last: Step) -> list[str]:
        """The final rows, held against all events at once, where nothing was ever forgotten."""
        readings = [
            self._reading(each, {}) for each in self._history.segments.values() if not each.seal
        ]
        expected = self._folded(SegmentRows.joined(readings))
        bounds = last.manifest.retained_from
        return [
            f"the last manifest has other rows of {name} than all events together"
            for name in sorted({*expected, *last.files} - {*bounds})
            if self._rows(name, last.files.get(name, [])) != expected.get(name, [])
        ]

    def _reading(self, segment: Segment, bounds: Mapping[str, datetime]) -> SegmentRows:
        if bounds:
            return read_segment(self._history.domain, segment, bounds)
        place = (segment.stream, segment.seq)
        if place not in self._readings:
            self._readings[place] = read_segment(self._history.domain, segment, bounds)
        return self._readings[place]

    def _folded(self, reading: SegmentRows) -> dict[str, list[dict[str, object]]]:
        return {
            name: fold(self._tables[name], rows).to_pylist() for name, rows in reading.rows.items()
        }

    def _rows(self, name: str, paths: Iterable[str]) -> list[dict[str, object]]:
        """The rows of some files, folded as a reader would."""
        asked = (name, *paths)
        cached = self._cached_rows.get(asked)
        if cached is None:
            table = self._tables[name]
            read = [self._file(name, path) for path in paths]
            rows = fold(table, pa.concat_tables([table.empty, *read]))
            cached = self._cached_rows[asked] = rows.to_pylist()
        return cached

    def _file(self, name: str, path: str) -> pa.Table:
        if path not in self._read:
            raw = pa.BufferReader(self._history.bodies[path])
            self._read[path] = conform(
                self._tables[name], pq.ParquetFile(raw).read(use_threads=False)
            )
        return self._read[path]

    def _by_key(
        self, name: str, rows: list[dict[str, object]]
    ) -> dict[tuple[object, ...], dict[str, object]]:
        key = self._tables[name].key
        return {tuple(row[column] for column in key): row for row in rows}


def _is_before(row: dict[str, object], bound: datetime) -> bool:
    occurred = row["_occurred_at"]
    return isinstance(occurred, datetime) and occurred < bound
