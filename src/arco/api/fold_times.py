"""When events of each domain were last folded, for the metric of the last successful compaction.

Merges and marks publish manifests too, also for a domain whose compaction is stuck. But only manifests that
fold events change the watermark, so the last fold is the oldest manifest with the watermark of the head.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from arco.catalog.manifest import read_manifest
from arco.catalog.reader import SnapshotReader
from arco.core.runtime import Runtime
from arco.ledger.stream import Watermark
from arco.storage.entry import Entry

_MANIFESTS_PER_READ = 8


@dataclass
class _Fold:
    """The oldest manifest that was read with a watermark; `is_last`: the one before has another."""

    watermark: Watermark
    number: int
    at: datetime
    is_last: bool = False


class FoldTimes:
    """Finds the last fold of each domain, and remembers it while the watermark stays the same.

    Costs no request while no manifest is published, and none for one that follows the remembered head.
    """

    def __init__(self, runtime: Runtime, domains: Mapping[str, SnapshotReader]) -> None:
        self._runtime = runtime
        self._domains = domains
        self._folds: dict[str, _Fold] = {}
        self._heads: dict[str, int] = {}  # the last number whose watermark was compared

    @property
    def last_folds(self) -> Mapping[str, datetime]:
        """When each domain was last folded, as far as that is known.

        If the manifest of the fold was collected, it is the time of the oldest one that is kept.
        """
        return {domain: fold.at for domain, fold in self._folds.items() if fold.is_last}

    async def update(self) -> None:
        """Compare the heads that were read last; what was found out is kept if this is cancelled."""
        domains = self._domains.items()
        await self._runtime.tasks.gather(*(self._update(name, each) for name, each in domains))

    async def _update(self, domain: str, reader: SnapshotReader) -> None:
        head = reader.remembered()
        if head is None or head.manifest is None or head.entry is None:
            return
        watermark, number = head.manifest.watermark, head.number
        fold = self._folds.get(domain)
        if fold is None or fold.watermark != watermark:
            if watermark == Watermark():
                return
            fold = _Fold(watermark, number, head.entry.record.created_at)
            # The manifest before may be the remembered head, which had another watermark.
            fold.is_last = self._heads.get(domain) == number - 1
            self._folds[domain] = fold
        self._heads[domain] = number
        while not fold.is_last:
            await _go_back(reader, fold)


async def _go_back(reader: SnapshotReader, fold: _Fold) -> None:
    """Read some manifests before the oldest one that is known with the watermark of a fold."""
    first = max(fold.number - _MANIFESTS_PER_READ, await reader.chain.floor())
    entries: list[Entry] = []
    if first < fold.number:
        entries = await reader.chain.history(first, fold.number - 1)
    for entry in reversed(entries):
        if read_manifest(entry).watermark != fold.watermark:
            fold.is_last = True
            return
        fold.number, fold.at = entry.number, entry.record.created_at
    fold.is_last = not entries
