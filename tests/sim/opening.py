"""Opening the simulated store the way a process does at its start, for as long as that takes."""

from arco.core.errors import Unavailable, Unknown
from arco.storage.open import open_store
from arco.storage.roles import Role
from arco.storage.store import Store

from .objects import SimObjects
from .process import Incarnation
from .store import SimBackend
from .world import MINUTE_MS


async def opened(objects: SimObjects, incarnation: Incarnation, role: Role) -> Store:
    """A handle on a store that was proven sound, once it answers."""
    while True:
        try:
            return await open_store(
                SimBackend(objects, incarnation), incarnation.runtime, role=role
            )
        except (Unavailable, Unknown):
            await incarnation.runtime.clock.sleep(MINUTE_MS)
