"""The parts of a workspace, put together: what `arco up` and `arco api` have in common."""

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass

from arco.catalog.change import ensure_default
from arco.catalog.commit import Committer
from arco.catalog.decision import Rules
from arco.catalog.lease import Lease
from arco.catalog.port import CompactorPort
from arco.catalog.reader import SnapshotReader
from arco.core.errors import Unavailable, Unknown
from arco.core.ids import new_ulid
from arco.events.registry import DOMAINS
from arco.fold.tier1 import DOMAIN
from arco.ledger.idempotency import Idempotency
from arco.ledger.writer import Writer
from arco.ledger.writers import Ring, Writers, nobody
from arco.storage.store import Store

_PAUSE_MS = 1_000


@dataclass(frozen=True)
class Workspace:
    """One API process's catalog: how to read it and how to change it."""

    reader: SnapshotReader
    committer: Committer
    idempotency: Idempotency
    writers: Writers

    async def close(self) -> None:
        """Finish what is under way and leave the store tidy."""
        await self.committer.close()
        # Whoever got its answer just now records it; a stop that did not wait would leave that to a retry.
        await self.reader.store.runtime.tasks.turn()
        await self.idempotency.close()
        await self.writers.close()

    async def begin(self, met: Callable[[Exception], None]) -> None:
        """Make the catalog `default` in a new workspace, as soon as the compactor is there.

        What keeps it waiting is handed to `met`, and tried again.
        """
        runtime = self.reader.store.runtime
        runtime.tasks.spawn(self.committer.prepare())
        while True:
            try:
                return await ensure_default(self.committer)
            except (Unavailable, Unknown) as problem:
                met(problem)
                await runtime.clock.sleep(_PAUSE_MS)


def open_workspace(
    store: Store, compactor: CompactorPort, rules: Rules, *, ring: Ring = nobody
) -> Workspace:
    """A workspace whose catalog is published through a compactor; `ring` hears of new events."""
    reader = SnapshotReader(store)
    holder = f"{socket.gethostname()}:{os.getpid()}:{new_ulid(store.runtime)}"
    committer = Committer(
        reader, Writer(store, DOMAIN), compactor, Lease(store, DOMAIN, holder=holder), rules
    )
    return Workspace(reader, committer, Idempotency(store), Writers(store, DOMAINS, ring=ring))
