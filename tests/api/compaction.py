"""Tier 2 compacted by hand, by the very engine that fresh reads use, on the store of a running server."""

import asyncio

from arco.compactor.catalog_compactor import mark_orphans
from arco.compactor.domain_compactor import DomainCompactor
from arco.compactor.event_compactor import EventCompactor
from arco.compactor.publisher import Publisher
from arco.compactor.tail_merge import TailPolicy
from arco.core.ids import new_ulid
from arco.core.runtime import system_runtime
from arco.core.scope import Scope
from arco.storage.local import LocalBackend
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.api.server import Served
from tests.compactor.in_process_engine import InProcessEngine


def compact(api: Served) -> int:
    """Publish all that was acknowledged; how many manifests that took."""
    return asyncio.run(_compact(api))


def merge_and_mark(api: Served, domain: str, *, marks: int = 1) -> None:
    """Merge the tail of a domain and mark its orphans, which publishes manifests but folds nothing."""
    asyncio.run(_merge_and_mark(_store(api), domain, marks))


async def _merge_and_mark(store: Store, domain: str, marks: int) -> None:
    policy = TailPolicy(longest=1, many_rows=0)
    compactor = DomainCompactor(store, domain, InProcessEngine(store), policy=policy)
    assert await compactor.merge() is not None
    for _ in range(marks):
        await asyncio.sleep(0.002)  # a higher mark each time
        await mark_orphans(Publisher(store, domain), new_ulid(store.runtime))


def _store(api: Served) -> Store:
    runtime = system_runtime()
    backend = LocalBackend(api.root, runtime, fsync=False)
    return Store(backend, runtime, scope=Scope(), role=Role.COMPACTOR)


async def _compact(api: Served) -> int:
    store = _store(api)
    tier2 = EventCompactor(store, InProcessEngine(store))
    cycles = await tier2.once()
    await tier2.close()
    return len(cycles)
