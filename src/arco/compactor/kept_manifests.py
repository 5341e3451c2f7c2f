"""Files and commit records that no kept manifest names, and how it is known that none ever will (P27).

A commit record bears the number of its manifest. Once that number exists, or was collected, a record that
it does not name can never be named: whoever has written it has lost the number.

A file bears the ULID of the attempt that made it. A mark that is published in a manifest makes every
publisher whose attempt is not above the mark start again; so what the manifests up to one with the mark do
not name, and is older than the mark, will never be named. Clocks decide nothing here but how young the mark
is: an old one spares attempts that are under way.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from ulid import ULID

from arco.catalog.manifest import BaseIndex, Manifest, Ref, read_commit, read_index, read_manifest
from arco.core.errors import Corrupt, NotFound
from arco.core.ids import Ulid
from arco.ledger.watermark import Watermark
from arco.storage.chain import SHORTEST_RETENTION_MS, Chain
from arco.storage.store import Store

T = TypeVar("T")

_AT_ONCE = 16
_NO_INDEX = BaseIndex(tables={})
_ULID = "[0-7][0-9A-HJKMNP-TV-Z]{25}"
_FILE = re.compile(rf"(?:snapshots|state|quarantine)/.+/(?:[0-9]+-)?({_ULID})\.(?:parquet|json)")
_RECORD = re.compile(rf"commits/[^/]+/([0-9]{{20}})-{_ULID}\.json")


@dataclass
class KeptManifests:
    """What the kept manifests of a domain name, as far as they have been read."""

    floor: int = 0
    head: int = -1
    mark: str = ""  # below which unnamed files may go, as the newest of them says
    files: set[str] = field(default_factory=set)
    records: dict[int, Ref] = field(default_factory=dict)
    oldest: Watermark = field(default_factory=Watermark)  # of the first: all have folded that
    newest: Watermark = field(default_factory=Watermark)
    _indexes: set[str] = field(default_factory=set)

    async def read_on(self, chain: Chain) -> None:
        """Read the manifests from the floor to the head, or those above what was read before."""
        while True:
            floor = max(self.floor, await chain.floor())
            first = max(floor, self.head + 1)
            last = min((await chain.head()).number, first + _AT_ONCE - 1)
            self.floor = floor
            if last < first:
                return
            try:
                entries = await chain.history(first, last)
            except NotFound:
                continue  # another janitor has raised the floor meanwhile
            for entry in entries:
                await self._take(chain, entry.number, read_manifest(entry))

    async def _take(self, chain: Chain, number: int, manifest: Manifest) -> None:
        if self.head < 0:
            self.oldest = manifest.watermark
        self.newest = manifest.watermark
        self.files.update(ref.path for ref in manifest.named())
        self.records[number] = manifest.commit
        index = manifest.base.index
        if index is not None and index.path not in self._indexes:
            tables = (await _unless_collected(chain, number, index, read_index, _NO_INDEX)).tables
            self.files.update(ref.path for files in tables.values() for ref in files.values())
            self.files.add(index.path)
            self._indexes.add(index.path)
        self.mark = manifest.orphans_before or ""
        self.head = number

    def may_name(self, path: str, last: int) -> bool:
        """Whether a manifest names a commit record, or one above `last` may."""
        found = _RECORD.fullmatch(path)
        if found is None:
            return True  # not ours
        number = int(found[1])
        if number > min(last, self.head):
            return True
        return number in self.records and self.records[number].path == path

    async def segments(self, chain: Chain) -> set[str]:
        """The ledger segments that the kept commits name."""
        found: set[str] = set()
        records = [each for each in self.records.items() if each[0] >= self.floor]
        for at in range(0, len(records), _AT_ONCE):
            read = await chain.store.runtime.tasks.gather(
                *(
                    _unless_collected(chain, number, ref, read_commit, None)
                    for number, ref in records[at : at + _AT_ONCE]
                )
            )
            found.update(path for record in read if record for path in record.event_paths)
        return found


async def _unless_collected(
    chain: Chain, number: int, ref: Ref, read: Callable[[Store, Ref], Awaitable[T]], nothing: T
) -> T:
    """What manifest `number` names, or `nothing` if another janitor has collected it meanwhile."""
    try:
        return await read(chain.store, ref)
    except Corrupt:
        if number < await chain.floor():
            return nothing
        raise


def attempt_in_path(path: str) -> str | None:
    """The ULID of the attempt that has made a file; None for what is not one of ours."""
    found = _FILE.fullmatch(path)
    return None if found is None else found[1]


def orphan_mark_at(store_now_ms: int) -> Ulid:
    """The mark to publish: below everything that may still be under way."""
    moment_ms = max(0, store_now_ms - SHORTEST_RETENTION_MS)
    return Ulid(str(ULID.from_bytes(moment_ms.to_bytes(6, "big") + bytes(10))))
