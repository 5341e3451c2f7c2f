"""The compactor of Tier 1, in process: it fills the port that the catalog publishes through."""

from collections.abc import Callable
from datetime import timedelta

from arco.catalog.decision import DEFAULT_RETENTION
from arco.catalog.manifest import CommitKind
from arco.catalog.port import Committed, SyncCompact
from arco.compactor.catalog_merge import LONGEST_TAIL, is_due, merge
from arco.compactor.domains import DOMAINS
from arco.compactor.publisher import ManifestChange, Publisher, manifest_at
from arco.compactor.sync_compaction import committed, sync_compact
from arco.core.clock import utc
from arco.core.errors import Conflict, Invalid
from arco.core.ids import new_ulid, parse_ulid
from arco.core.tasks import Task
from arco.fold.tier1 import DOMAIN
from arco.storage.store import Store

# What was dropped can be undropped for the retention; it is kept a while longer than that, so that a
# clock which is behind finds it still there.
_GRACE = timedelta(days=1)


FailureCallback = Callable[[str, Exception], None]  # what has failed in the background, and how


class CatalogCompactor:
    """The one that publishes, for one workspace."""

    def __init__(
        self,
        store: Store,
        *,
        retention: timedelta = DEFAULT_RETENTION,
        grace: timedelta = _GRACE,
        tell: FailureCallback | None = None,
    ) -> None:
        self._store = store
        self._keep = retention + grace
        self._publisher = Publisher(store, DOMAIN)
        self._merging: Task[None] | None = None
        self._tell = tell
        self._rest_until = -1  # after a merge has failed, no other before this number
        self.merge_problem: Exception | None = None

    async def sync_compact(self, call: SyncCompact) -> Committed:
        if call.domain != DOMAIN:
            raise Invalid(f"domain {call.domain[:40]!r} is not compacted synchronously")
        answer = await sync_compact(self._publisher, call)
        self._merge_soon()
        return answer

    async def mark_orphans(self, before: str, domain: str = DOMAIN) -> Committed:
        if domain not in DOMAINS:
            raise Invalid(f"there is no domain {domain[:40]!r}")
        known = domain == DOMAIN  # of the others somebody else has the publisher
        return await mark_orphans(
            self._publisher if known else Publisher(self._store, domain), before
        )

    async def merge(self, *, into_base: bool = True) -> Committed | None:
        """Merge all tails; not into the base, they go there only if they are large."""
        before = utc(self._store.runtime.clock.now_ms()) - self._keep
        merged = await merge(self._publisher, forget_before=before, into_base=into_base)
        return None if merged is None else committed(merged)

    async def close(self) -> None:
        """Finish a merge that is under way, and leave a fresh hint."""
        if self._merging is not None:
            await self._merging.wait()
        await self._publisher.chain.close()

    def _merge_soon(self) -> None:
        """Merge beside the callers once a tail is long; one merge at a time."""
        head = self._publisher.chain.remembered()
        manifest = None if head is None else manifest_at(head)
        busy = self._merging is not None and not self._merging.done()
        rested = head is not None and head.number >= self._rest_until
        if manifest is not None and is_due(manifest) and rested and not busy:
            self._merging = self._store.runtime.tasks.spawn(self._merge())

    async def _merge(self) -> None:
        try:
            await self.merge(into_base=False)
            self.merge_problem = None
        except Exception as problem:
            # Later commits try again; a tail that is long costs time only.
            self.merge_problem = problem
            known = self._publisher.chain.remembered()
            self._rest_until = LONGEST_TAIL + (0 if known is None else known.number)
            if self._tell is not None:
                self._tell("merge", problem)


_TIME = 10  # so many characters of a ULID are its time


async def mark_orphans(publisher: Publisher, before: str) -> Committed:
    """Publish a mark, unless one at least as high is published already."""
    runtime = publisher.store.runtime
    mark = parse_ulid(before)
    if mark[:_TIME] > new_ulid(runtime)[:_TIME]:
        # It is never lowered, and every name of a file to come has to lie above it.
        raise Invalid("orphans are marked up to a moment that has passed")
    while True:
        head = await publisher.chain.head()
        parent = manifest_at(head)
        if parent is None:
            raise Invalid("nothing was published yet, so there is nothing to mark")
        if parent.orphans_before is not None and parent.orphans_before >= mark:
            return committed(head)
        change = ManifestChange(
            kind=CommitKind.MARK,
            commit_ulid=new_ulid(runtime),
            tail=parent.tail,
            base=parent.base,
            orphans_before=mark,
        )
        try:
            return committed(await publisher.publish(head, change))
        except Conflict:
            continue
