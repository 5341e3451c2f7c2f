"""What the log of the store says about the catalog: its manifests as first created, and their files.

The auditor of presence is here: what a manifest names is there before it, with the right bytes, and stays
until the floor has passed every manifest that names it; numbers go only below the floor and not before
their successor has existed for the retention.
"""

from dataclasses import dataclass

import msgspec

from arco.catalog.manifest import BaseIndex, Commit, FileRef, Manifest, Ref
from arco.core.hashing import sha256_hex
from arco.core.scope import Scope
from arco.storage.chain import SHORTEST_RETENTION_MS
from arco.storage.entry import Entry, read_entry
from arco.storage.hint import FloorBody

from .objects import Mutation, SimObjects

MANIFESTS = "manifests/catalog"


@dataclass(frozen=True)
class Version:
    """One number of the chain, and what it names itself."""

    number: int
    entry: Entry
    manifest: Manifest
    commit: Commit
    position: int  # in the log
    at_ms: float


class CatalogHistory:
    """Follows the log once, and says what was wrong on the way."""

    def __init__(self, objects: SimObjects) -> None:
        self.wrong: list[str] = []
        self.versions: list[Version] = []
        self.floor = 0
        self.bodies: dict[str, bytes] = {}  # of everything that was ever created, by path
        self.epochs_ms: dict[int, float] = {}  # when each epoch of the lease was taken
        self._stored_paths: set[str] = set()
        self._made_ms: dict[str, float] = {}
        self._last_named: dict[str, int] = {}
        self._heads: list[int] = []  # the head after each entry of the log
        self._hashes: dict[str, str] = {}
        for position, mutation in enumerate(objects.log):
            self._follow(position, mutation)
            self._heads.append(len(self.versions) - 1)
        self._check_kept(objects)

    def head_at(self, position: int) -> int:
        """The newest number when the log had this many entries."""
        return self._heads[position - 1] if position else -1

    def files(self, manifest: Manifest) -> list[tuple[str, FileRef]]:
        """Every Parquet file that the state at a manifest is made of, with its table."""
        named = [(name, ref) for name, refs in manifest.tail.items() for ref in refs]
        named += list(manifest.base.unbucketed.items())
        if manifest.base.index is not None:
            index = msgspec.json.decode(self.bodies[manifest.base.index.path], type=BaseIndex)
            for name, buckets in index.tables.items():
                named += [(name, ref) for ref in buckets.values()]
        return named

    def _follow(self, position: int, mutation: Mutation) -> None:
        path = mutation.key.removeprefix(Scope().prefix)
        folder, _, name = path.rpartition("/")
        stem = name.partition(".")[0]
        if mutation.verb == "put":
            return
        if folder == MANIFESTS and stem.isdigit():
            self._follow_number(position, mutation, int(stem))
        elif folder == f"{MANIFESTS}/floor" and mutation.verb == "create":
            self.floor = read_entry(mutation.body, int(stem), folder).body(FloorBody).floor
        elif folder == "locks/catalog" and mutation.verb == "create" and stem.isdigit():
            self.epochs_ms.setdefault(int(stem), mutation.at_ms)
        if mutation.verb == "create":
            self.bodies[path] = mutation.body
            self._made_ms[path] = mutation.at_ms
            self._stored_paths.add(path)
            return
        self._stored_paths.discard(path)
        if self._last_named.get(path, -1) >= self.floor:
            last = self._last_named[path]
            self._say(f"{path} was deleted, which {last} names, with the floor at {self.floor}")

    def _follow_number(self, position: int, mutation: Mutation, number: int) -> None:
        if mutation.verb == "delete":
            self._check_collected(number, mutation.at_ms)
        elif number < len(self.versions):
            if number >= self.floor:
                self._say(f"manifest {number} was created again above the floor {self.floor}")
        elif number > len(self.versions):
            self._say(f"manifest {number} was made above a hole")
        else:
            self._add(position, mutation, number)

    def _check_collected(self, number: int, at_ms: float) -> None:
        if number >= self.floor:
            self._say(f"manifest {number} was deleted with the floor at {self.floor}")
        elif number + 1 < len(self.versions):
            age_ms = at_ms - self.versions[number + 1].at_ms
            if age_ms < SHORTEST_RETENTION_MS:
                self._say(f"manifest {number} went when it was old for {age_ms:.0f} ms")

    def _add(self, position: int, mutation: Mutation, number: int) -> None:
        entry = read_entry(mutation.body, number, MANIFESTS)
        if self.versions and entry.record.parent_sha256 != self.versions[-1].entry.sha256():
            self._say(f"manifest {number} does not follow its parent: a fork")
        manifest = entry.body(Manifest)
        if not self._check_named(number, manifest.commit):
            raise AssertionError(f"manifest {number} names a commit record that is not there")
        commit = msgspec.json.decode(self.bodies[manifest.commit.path], type=Commit)
        self.versions.append(Version(number, entry, manifest, commit, position, mutation.at_ms))
        self._check_events(number, commit, mutation.at_ms)
        if manifest.base.index is not None and not self._check_named(number, manifest.base.index):
            return
        for _, ref in self.files(manifest):
            self._check_named(number, ref)

    def _check_events(self, number: int, commit: Commit, at_ms: float) -> None:
        for path in commit.event_paths:
            self._last_named[path] = number
            # Who slept between append and commit may find the ledger's copy collected.
            slept_ms = at_ms - self._made_ms[path]
            if path not in self._stored_paths and slept_ms < SHORTEST_RETENTION_MS:
                self._say(f"commit {number} names {path}, which is not there")

    def _check_named(self, number: int, ref: Ref | FileRef) -> bool:
        """Whether what a manifest names was there before it (law 3), as it says."""
        self._last_named[ref.path] = number
        if ref.path not in self._stored_paths:
            self._say(f"manifest {number} names {ref.path}, which is not there")
            return ref.path in self.bodies
        if ref.path not in self._hashes:
            self._hashes[ref.path] = sha256_hex(self.bodies[ref.path])
        if self._hashes[ref.path] != ref.sha256:
            self._say(f"manifest {number} names other bytes of {ref.path}")
        return True

    def _check_kept(self, objects: SimObjects) -> None:
        stored_keys = set(objects.keys())
        for version in self.versions[self.floor :]:
            key = f"{Scope().prefix}{MANIFESTS}/{version.number:020d}.json"
            if key not in stored_keys or objects.get(key) != version.entry.raw:
                self._say(f"manifest {version.number} is gone, with the floor at {self.floor}")

    def _say(self, what: str) -> None:
        self.wrong.append(what)
