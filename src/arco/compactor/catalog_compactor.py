"""The compactor of the catalog domain (Tier 1): it implements the catalog's publishing port."""

from collections.abc import Callable
from datetime import timedelta

from arco.catalog.compactor_port import Guard, PublishedCommit, SyncCompact, no_guard
from arco.catalog.decision import DEFAULT_RETENTION
from arco.catalog.manifest import CommitKind
from arco.compactor.catalog_merge import merge
from arco.compactor.catalog_tail import MAX_TAIL, is_large, is_long, shorten_tail
from arco.compactor.domains import DOMAINS
from arco.compactor.publisher import ManifestChange, Publisher, manifest_at
from arco.compactor.sync_compaction import committed, sync_compact
from arco.core.clock import utc
from arco.core.errors import Conflict, Invalid
from arco.core.ids import new_ulid, parse_ulid
from arco.core.tasks import Task
from arco.fold.tier1 import DOMAIN
from arco.storage.store import Store

# Dropped objects can be undropped during the retention. Their rows are kept a while longer, so that a
# process whose clock is behind still finds them.
_GRACE = timedelta(days=1)


FailureCallback = Callable[[str, Exception], None]  # what failed in the background, and the error


class CatalogCompactor:
    """Publishes commits and merges of the catalog domain of one workspace."""

    def __init__(
        self,
        store: Store,
        *,
        retention: timedelta = DEFAULT_RETENTION,
        grace: timedelta = _GRACE,
        on_failure: FailureCallback | None = None,
    ) -> None:
        self._store = store
        self._keep = retention + grace
        self._publisher = Publisher(store, DOMAIN)
        self._merging: Task[None] | None = None
        self._on_failure = on_failure
        self._next_merge_number = -1  # after a failed merge: no other merge before this manifest
        self.merge_problem: Exception | None = None

    async def sync_compact(self, call: SyncCompact, guard: Guard = no_guard) -> PublishedCommit:
        if call.domain != DOMAIN:
            raise Invalid(f"domain {call.domain[:40]!r} is not compacted synchronously")
        answer = await sync_compact(self._publisher, call, guard)
        self._merge_soon()
        return answer

    async def mark_orphans(self, before: str, domain: str = DOMAIN) -> PublishedCommit:
        if domain not in DOMAINS:
            raise Invalid(f"there is no domain {domain[:40]!r}")
        publisher = self._publisher if domain == DOMAIN else Publisher(self._store, domain)
        return await mark_orphans(publisher, before)

    async def merge(self) -> PublishedCommit | None:
        before = utc(self._store.runtime.clock.now_ms()) - self._keep
        merged = await merge(self._publisher, forget_before=before)
        return None if merged is None else committed(merged)

    async def close(self) -> None:
        """Wait for a merge in progress, and write a fresh hint."""
        if self._merging is not None:
            await self._merging.wait()
        await self._publisher.chain.close()

    def _merge_soon(self) -> None:
        """Start a merge in the background once the tail is long or large; one at a time."""
        head = self._publisher.chain.remembered()
        manifest = None if head is None else manifest_at(head)
        busy = self._merging is not None and not self._merging.done()
        may_retry = head is not None and head.number >= self._next_merge_number
        if manifest is None or busy or not may_retry:
            return
        into_base = is_large(manifest)
        if into_base or is_long(manifest):
            self._merging = self._store.runtime.tasks.spawn(self._merge(into_base=into_base))

    async def _merge(self, *, into_base: bool) -> None:
        try:
            await (self.merge() if into_base else shorten_tail(self._publisher))
            self.merge_problem = None
        except Exception as problem:
            # Later commits try again. A long tail only slows readers down.
            self.merge_problem = problem
            head = self._publisher.chain.remembered()
            self._next_merge_number = MAX_TAIL + (0 if head is None else head.number)
            if self._on_failure is not None:
                self._on_failure("merge", problem)


_TIMESTAMP_CHARS = 10  # of a ULID


async def mark_orphans(publisher: Publisher, before: str) -> PublishedCommit:
    """Publish that unnamed files below `before` may be deleted (P27), unless a higher mark exists."""
    runtime = publisher.store.runtime
    mark = parse_ulid(before)
    if mark[:_TIMESTAMP_CHARS] > new_ulid(runtime)[:_TIMESTAMP_CHARS]:
        # A mark is never lowered, and the names of all later files must lie above it.
        raise Invalid("the mark for orphans must lie in the past")
    while True:
        head = await publisher.chain.head()
        parent = manifest_at(head)
        if parent is None:
            raise Invalid(
                f"nothing of {publisher.domain} is published yet, so there is nothing to mark"
            )
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
