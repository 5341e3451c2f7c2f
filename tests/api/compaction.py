"""Tier 2 compacted by hand, by the very engine that fresh reads use, on the store of a running server."""

import asyncio

from arco.compactor.event_compactor import EventCompactor
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


async def _compact(api: Served) -> int:
    runtime = system_runtime()
    backend = LocalBackend(api.root, runtime, fsync=False)
    store = Store(backend, runtime, scope=Scope(), role=Role.COMPACTOR)
    tier2 = EventCompactor(store, InProcessEngine(store))
    cycles = await tier2.once()
    await tier2.close()
    return len(cycles)
