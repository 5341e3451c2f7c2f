"""What the kept manifests of a domain name, and which other files none will ever name (P27).

The name of a commit record has the number of its manifest. Once that number exists or was collected, a
record that it does not name can never be named: its writer lost the race for the number.

The name of a file has the ULID of its attempt. After an orphan mark is published, an attempt that is not
above the mark must start again. So a file below the mark that no manifest up to the one with the mark names
will never be named. Clocks decide only how recent the mark is: an old one spares attempts in progress.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from ulid import ULID

from arco.catalog.manifest import BaseIndex, Manifest, Ref, read_commit, read_index, read_manifest
from arco.core.errors import Corrupt, NotFound
from arco.core.ids import Ulid
from arco.ledger.stream import Watermark
from arco.storage.chain import SHORTEST_RETENTION_MS, Chain
from arco.storage.store import Store

T = TypeVar("T")

_PARALLEL_READS = 16
_NO_INDEX = BaseIndex(tables={})
_ULID = "[0-7][0-9A-HJKMNP-TV-Z]{25}"
_FILE = re.compile(rf"(?:snapshots|state|quarantine)/.+/(?:[0-9]+-)?({_ULID})\.(?:parquet|json)")
_RECORD = re.compile(rf"commits/[^/]+/([0-9]{{20}})-{_ULID}\.json")


@dataclass
class KeptManifests:
    """What the kept manifests of a domain name, as far as they are read."""

    floor: int = 0
    head: int = -1
    mark: str = ""  # the orphan mark of the newest manifest
    files: set[str] = field(default_factory=set)
    records: dict[int, Ref] = field(default_factory=dict)
    oldest: Watermark = field(default_factory=Watermark)  # of the oldest manifest
    newest: Watermark = field(default_factory=Watermark)
    _indexes: set[str] = field(default_factory=set)

    async def read_on(self, chain: Chain) -> None:
        """Read the manifests from the floor to the head, or those above what was read before."""
        while True:
            floor = max(self.floor, await chain.floor())
            first = max(floor, self.head + 1)
            last_number = min((await chain.head()).number, first + _PARALLEL_READS - 1)
            self.floor = floor
            if last_number < first:
                return
            try:
                entries = await chain.history(first, last_number)
            except NotFound:
                continue  # another collection has raised the floor
            for entry in entries:
                await self._add(chain, entry.number, read_manifest(entry))

    async def _add(self, chain: Chain, number: int, manifest: Manifest) -> None:
        if self.head < 0:
            self.oldest = manifest.watermark
        self.newest = manifest.watermark
        self.files.update(ref.path for ref in manifest.named_files())
        self.records[number] = manifest.commit
        index = manifest.base.index
        if index is not None and index.path not in self._indexes:
            tables = (await _unless_collected(chain, number, index, read_index, _NO_INDEX)).tables
            self.files.update(ref.path for files in tables.values() for ref in files.values())
            self.files.add(index.path)
            self._indexes.add(index.path)
        self.mark = manifest.orphans_before or ""
        self.head = number

    def may_name(self, path: str, head_number: int) -> bool:
        """Whether a kept manifest names a commit record, or one above `head_number` still may."""
        match = _RECORD.fullmatch(path)
        if match is None:
            return True  # not a commit record
        number = int(match[1])
        if number > min(head_number, self.head):
            return True
        return number in self.records and self.records[number].path == path

    async def segments(self, chain: Chain) -> set[str]:
        """The ledger segments that the kept commits name."""
        paths: set[str] = set()
        records = [each for each in self.records.items() if each[0] >= self.floor]
        for at in range(0, len(records), _PARALLEL_READS):
            read = await chain.store.runtime.tasks.gather(
                *(
                    _unless_collected(chain, number, ref, read_commit, None)
                    for number, ref in records[at : at + _PARALLEL_READS]
                )
            )
            paths.update(path for record in read if record for path in record.event_paths)
        return paths


async def _unless_collected(
    chain: Chain, number: int, ref: Ref, read: Callable[[Store, Ref], Awaitable[T]], nothing: T
) -> T:
    """What manifest `number` names, or `nothing` if another collection deleted it."""
    try:
        return await read(chain.store, ref)
    except Corrupt:
        if number < await chain.floor():
            return nothing
        raise


def attempt_in_path(path: str) -> str | None:
    """The ULID of the attempt in the path of a file; None for other objects."""
    match = _FILE.fullmatch(path)
    return None if match is None else match[1]


def orphan_mark_at(store_now_ms: int) -> Ulid:
    """The mark to publish: below every attempt that may still be in progress."""
    moment_ms = max(0, store_now_ms - SHORTEST_RETENTION_MS)
    return Ulid(str(ULID.from_bytes(moment_ms.to_bytes(6, "big") + bytes(10))))
