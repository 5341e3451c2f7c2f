"""Sites: a store, a clock that stands still, and an engine."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from arco.compactor.in_process import InProcess
from arco.compactor.job import Engine
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.core.tasks import AsyncioTasks
from arco.storage.backend import Backend
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.clocks import HandClock
from tests.differential.layout import hand_clock
from tests.stores import HASTY, open_bench

_TASKS = AsyncioTasks()  # one for all: each has threads of its own


@dataclass(frozen=True)
class Site:
    """Where a history is compacted."""

    clock: HandClock
    runtime: Runtime
    backend: Backend
    engine: Callable[[Store], Engine]

    def store(self, role: Role) -> Store:
        return Store(self.backend, self.runtime, scope=Scope(), role=role, retry=HASTY)


def new_site(rng: Random, url: str, engine: Callable[[Store], Engine]) -> Site:
    """An empty one."""
    clock = hand_clock()
    runtime = Runtime(clock, Random(rng.randrange(10**9)), _TASKS)
    return Site(clock, runtime, open_bench(url, runtime).backend, engine)


def in_process(rng: Random) -> Site:
    """In this process, with some shards or none."""
    shards = rng.randint(1, 3)
    return new_site(rng, "memory://", lambda store: InProcess(store, shards=shards))
