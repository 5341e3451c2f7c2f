"""What happened to a domain of Tier 2, read from the log of the store, and what was wrong on the way.

The log is walked once. A manifest that appears must follow the one before it, move the watermark forward
by segments that are there, and name files that are there. Whatever is deleted must be of no use to any
manifest that is kept at that moment: then no reader can miss a file within the retention.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from arco.catalog.manifest import BaseIndex, Commit, FileRef, Manifest, read_manifest
from arco.core import json
from arco.core.scope import Scope
from arco.ledger.segment import Segment, decode_segment, parse_segment_key
from arco.ledger.stream import Slot, Watermark
from arco.storage.chain import SHORTEST_RETENTION_MS
from arco.storage.entry import read_entry
from arco.storage.hint import FloorBody

from .objects import Mutation, SimObjects

Place = tuple[str, int]  # stream, segment

_FILES = ("state/", "snapshots/", "quarantine/")


@dataclass(frozen=True)
class Step:
    """A manifest that was published, and what is new in it."""

    at_ms: float
    sha256: str
    manifest: Manifest
    record: Commit
    files: dict[str, list[str]]  # the paths of all files by table, of base and tail alike
    news: list[Segment]  # by what the watermark has moved, seals left out


@dataclass
class History:
    """One domain from its first object to its last."""

    domain: str
    steps: list[Step] = field(default_factory=list)
    segments: dict[Place, Segment] = field(default_factory=dict)
    bodies: dict[str, bytes] = field(default_factory=dict)  # of files and records, by path
    floor: int = 0
    wrong: list[str] = field(default_factory=list)
    _slots: dict[int, str] = field(default_factory=dict)  # streams by number
    _seals: dict[str, int] = field(default_factory=dict)
    _stored_objects: dict[str, tuple[float, str]] = field(
        default_factory=dict
    )  # since when, SHA-256
    _last_named: dict[str, int] = field(default_factory=dict)  # by path, the last manifest with it

    @classmethod
    def of(cls, objects: SimObjects, domain: str) -> "History":
        """All that the log holds of a domain."""
        history = cls(domain)
        prefix = Scope().prefix
        for change in objects.log:
            path = change.key.removeprefix(prefix)
            if change.verb == "delete":
                history._deleted(path, change.at_ms)
            else:
                history._stored(path, change)
        return history

    def is_caught_up(self) -> bool:
        """Whether every segment that was ever stored is below the watermark of the head."""
        return all(self._is_folded(place, self._watermark(-1)) for place in self.segments)

    def _stored(self, path: str, change: Mutation) -> None:
        self._stored_objects[path] = (change.at_ms, change.sha256)
        folder, _, name = path.rpartition("/")
        if folder == f"manifests/{self.domain}" and name != "head.json":
            self._published(int(name.partition(".")[0]), path, change)
        elif folder == f"manifests/{self.domain}/floor":
            self._raised(read_entry(change.body, int(name[:20]), folder).body(FloorBody), change)
        elif folder == f"sequence/{self.domain}" and name != "head.json":
            number = int(name[:12])
            self._slots.setdefault(
                number, read_entry(change.body, number, folder).body(Slot).stream
            )
        elif path.startswith(f"ledger/{self.domain}/"):
            self._appended(path, change.body)
        elif path.startswith((*_FILES, f"commits/{self.domain}/")):
            self.bodies[path] = change.body

    def _appended(self, path: str, body: bytes) -> None:
        place = parse_segment_key(path)
        if place is None:
            self.wrong.append(f"{path} is no segment")
            return
        segment = decode_segment(body, place[1], place[2])
        # Who slept through the retention may create the very bytes again that were collected.
        if self.segments.setdefault(place[1:], segment) != segment:
            self.wrong.append(f"segment {place[1:]} held two bodies")
        if segment.seal:
            self._seals[segment.stream] = segment.seq
        if segment.seq > self._seals.get(segment.stream, segment.seq):
            self.wrong.append(f"segment {place[1:]} stands above the seal of its stream")

    def _raised(self, body: FloorBody, change: Mutation) -> None:
        if body.floor >= len(self.steps):
            self.wrong.append(f"the floor was raised to {body.floor}, which is no manifest")
        elif change.at_ms - self.steps[body.floor].at_ms < SHORTEST_RETENTION_MS:
            self.wrong.append(f"manifest {body.floor - 1} was given up before its time")
        self.floor = max(self.floor, body.floor)

    # manifests

    def _published(self, number: int, path: str, change: Mutation) -> None:
        if number < len(self.steps):
            if number >= self.floor:
                self.wrong.append(f"manifest {number} was created twice")
            return  # a leftover of a process that slept, below all that is read
        entry = read_entry(change.body, number, path)
        parent = self.steps[-1].sha256 if self.steps else None
        if number != len(self.steps) or entry.record.parent_sha256 != parent:
            self.wrong.append(f"manifest {number} does not follow manifest {len(self.steps) - 1}")
            return
        manifest = read_manifest(entry)
        files = {name: [ref.path for ref in refs] for name, refs in self._named(manifest).items()}
        named = {manifest.commit.path: manifest.commit.sha256} | dict(self._hashes(manifest))
        for each, sha256 in named.items():
            if each not in self._stored_objects or self._stored_objects[each][1] != sha256:
                self.wrong.append(f"manifest {number} names {each}, which is missing or another")
            self._last_named[each] = number
        news = self._news(number, self._watermark(-1), manifest.watermark)
        self._check_succession(number, manifest)
        record = json.decode(self.bodies[manifest.commit.path], Commit)
        step = Step(change.at_ms, change.sha256, manifest, record, files, news)
        self.steps.append(step)

    def _check_succession(self, number: int, manifest: Manifest) -> None:
        parent = self.steps[-1].manifest if self.steps else manifest
        if (manifest.orphans_before or "") < (parent.orphans_before or ""):
            self.wrong.append(f"manifest {number} has lowered the mark")
        for table, bound in parent.retained_from.items():
            if manifest.retained_from.get(table, bound) < bound:
                self.wrong.append(f"manifest {number} has lowered the bound of {table}")

    def _named(self, manifest: Manifest) -> dict[str, list[FileRef]]:
        named = {name: list(refs) for name, refs in manifest.tail.items()}
        for name, ref in manifest.base.unbucketed.items():
            named.setdefault(name, []).append(ref)
        for name, files in self._index(manifest).tables.items():
            named.setdefault(name, []).extend(files.values())
        return named

    def _hashes(self, manifest: Manifest) -> Iterator[tuple[str, str]]:
        if manifest.base.index is not None:
            yield manifest.base.index.path, manifest.base.index.sha256
        for refs in self._named(manifest).values():
            for ref in refs:
                yield ref.path, ref.sha256

    def _index(self, manifest: Manifest) -> BaseIndex:
        ref = manifest.base.index
        if ref is None or ref.path not in self.bodies:
            return BaseIndex(tables={})
        return json.decode(self.bodies[ref.path], BaseIndex)

    # watermarks

    def _watermark(self, number: int) -> Watermark:
        return self.steps[number].manifest.watermark if self.steps else Watermark()

    def _news(self, number: int, old: Watermark, new: Watermark) -> list[Segment]:
        """The segments between two watermarks; what is odd about them goes into `wrong`."""
        met = [self._slots.get(slot) for slot in range(old.frontier, new.frontier)]
        open_streams = {**old.open, **{stream: -1 for stream in met if stream is not None}}
        if new.frontier < old.frontier or None in met or not new.open.keys() <= open_streams.keys():
            self.wrong.append(
                f"manifest {number} has a watermark that does not follow its parent's"
            )
            return []
        segments: list[Segment] = []
        for stream, folded in open_streams.items():
            last = new.open.get(stream, self._seals.get(stream))
            if last is None:
                self.wrong.append(f"manifest {number} has left stream {stream}, which has no seal")
                continue
            if last < folded:
                self.wrong.append(f"manifest {number} goes back in stream {stream}")
            for seq in range(folded + 1, last + 1):
                segment = self.segments.get((stream, seq))
                if segment is None:
                    self.wrong.append(f"manifest {number} has passed {(stream, seq)}, never stored")
                elif not segment.seal:
                    segments.append(segment)
        return segments

    def _is_folded(self, place: Place, mark: Watermark) -> bool:
        stream, seq = place
        if stream in mark.open:
            return seq <= mark.open[stream]
        return any(mark.frontier > slot for slot, each in self._slots.items() if each == stream)

    # deletions

    def _deleted(self, path: str, at_ms: float) -> None:
        since, _ = self._stored_objects.pop(path, (at_ms, ""))
        folder, _, name = path.rpartition("/")
        if path.startswith((*_FILES, f"commits/{self.domain}/")):
            if self._last_named.get(path, -1) >= self.floor:
                self.wrong.append(f"{path} was deleted, and kept manifests name it")
        elif folder == f"manifests/{self.domain}":
            if int(name.partition(".")[0]) >= self.floor:
                self.wrong.append(f"{path} was deleted, and is not below the floor")
        elif path.startswith(f"ledger/{self.domain}/"):
            place = parse_segment_key(path)
            if place is not None:
                self._check_collected(place[1:], at_ms - since)
        elif folder == f"sequence/{self.domain}" and name != "head.json":
            mark = self._watermark(self.floor)
            number = int(name[:12])
            if number >= mark.frontier or self._slots[number] in mark.open:
                self.wrong.append(f"slot {number} was deleted, and its stream is not closed")

    def _check_collected(self, place: Place, age_ms: float) -> None:
        if self.segments[place].seal:
            self.wrong.append(f"{place} was deleted, which is a seal")
        elif not self.steps or not self._is_folded(place, self._watermark(self.floor)):
            self.wrong.append(f"{place} was deleted, and the oldest manifest has not folded it")
        elif age_ms < SHORTEST_RETENTION_MS:
            self.wrong.append(f"{place} was deleted before its time")
