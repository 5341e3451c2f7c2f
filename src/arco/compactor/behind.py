"""Whether there is something to do for a domain of Tier 2, and how much: one look, for a few requests.

Seals alone do not count: nobody waits for them, and it takes an engine to fold them.
"""

from collections.abc import Mapping
from datetime import timedelta

from arco.catalog.manifest import Manifest, manifests_of
from arco.compactor.publish import parent_of
from arco.compactor.retention import Retention
from arco.fold.tier2 import TIER2
from arco.ledger.follower import SegmentFollower
from arco.ledger.stream import Watermark
from arco.storage.store import Store


async def is_behind(store: Store, domain: str, retention: Mapping[str, timedelta]) -> bool:
    """Whether the ledger has events that are not published, or rows are kept for too long."""
    manifests = manifests_of(store, domain)
    head = await manifests.head()
    published = parent_of(head)
    mine = {table: span for table, span in retention.items() if table in TIER2[domain]}
    if published is not None and await Retention(manifests, mine).is_overdue(
        head.number, published.retained_from
    ):
        return True
    return await _above(store, domain, published) > 0


async def waiting_segments(store: Store, domain: str) -> int:
    """How many segments of the ledger are in no manifest yet; of very many, as many as one job takes."""
    return await _above(store, domain, parent_of(await manifests_of(store, domain).head()))


async def _above(store: Store, domain: str, published: Manifest | None) -> int:
    watermark = Watermark() if published is None else published.watermark
    batch = await SegmentFollower(store, domain, watermark).poll(everything=True)
    return 0 if batch is None else sum(not each.seal for each in batch.segments)
