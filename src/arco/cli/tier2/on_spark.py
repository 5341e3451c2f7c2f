"""Tier 2 in this very process, on a session of Spark that is opened and closed with it."""

import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from arco.cli.keep import Keep
from arco.cli.place import Place
from arco.cli.spark import Spark
from arco.compactor.tail import Policy
from arco.compactor.tier2 import Tier2
from arco.core.runtime import Runtime
from arco.fold.tier2 import TIER2
from arco.storage.open import open_store
from arco.storage.roles import Role
from arco.storage.store import Store

if TYPE_CHECKING:
    from arco.compactor.cycle import Cycle
    from arco.compactor.pace import Pace
    from arco.compactor.spark.engine import SparkEngine
    from arco.compactor.spark.session import Session

_STDERR = 2
_FAREWELL_MS = 2_000  # for Spark to stop; the JVM goes without one otherwise


@dataclass(frozen=True)
class OnSpark:
    """What there is while the session is open."""

    store: Store
    engine: "SparkEngine"
    tier2: Tier2


async def open_compactor_store(place: Place, runtime: Runtime) -> Store:
    """The store of a place, as the compactor may use it."""
    backend = place.backend(runtime)
    return await open_store(backend, runtime, role=Role.COMPACTOR, scope=place.scope())


@asynccontextmanager
async def on_spark(
    place: Place,
    spark: Spark,
    keep: Keep,
    store: Store,
    *,
    domains: Sequence[str] = tuple(TIER2),
    pace: "Pace | None" = None,
    tell: Callable[[str, Exception], None] | None = None,
    report: "Callable[[Cycle], None] | None" = None,
    quiet: bool = False,
) -> AsyncIterator[OnSpark]:
    """Tier 2 on a warm session; `Unavailable` if Spark does not start.

    A `quiet` JVM writes nothing to our stderr, where it greets whoever starts it.
    """
    from arco.compactor.spark.engine import SparkEngine
    from arco.compactor.spark.session import open_session
    from arco.compactor.spark.store_spec import spec_of

    spec = spec_of(place.address(), place.scope(), fsync=not place.no_fsync)
    tasks = store.runtime.tasks
    with silent_jvm() if quiet else nullcontext():
        session = await tasks.in_thread(
            lambda: open_session(spark.master, spark.remote, store_scheme=spec.scheme)
        )
    engine = SparkEngine(session, spec, store.runtime)
    try:
        await engine.warm_up()
        tier2 = Tier2(
            store,
            engine,
            domains=domains,
            retention=keep.spans(),
            tell=tell,
            report=report,
            pace=pace,
            policy=_merge_policy(),
        )
        yield OnSpark(store, engine, tier2)
        await tier2.close()
    finally:
        with suppress(Exception):  # it may be gone, and that is all right
            await tasks.deadline(_FAREWELL_MS, tasks.in_thread(session.stop))


async def compact_beside(
    session: "Session", place: Place, keep: Keep, store: Store, domains: Sequence[str]
) -> "list[Cycle]":
    """All work there is now, on a Spark that somebody else has opened and will stop."""
    from arco.compactor.spark.engine import SparkEngine
    from arco.compactor.spark.session import beside
    from arco.compactor.spark.store_spec import spec_of

    spec = spec_of(place.address(), place.scope(), fsync=not place.no_fsync)
    own = await store.runtime.tasks.in_thread(lambda: beside(session))
    engine = SparkEngine(own, spec, store.runtime)
    tier2 = Tier2(store, engine, domains=domains, retention=keep.spans())
    try:
        return await tier2.once()
    finally:
        await tier2.close()


def _merge_policy() -> Policy:
    """Merges that a worker has the memory for: a row takes about a kilobyte while it is folded."""
    from arco.compactor.spark.memory import limit_mb

    most_mb = limit_mb()
    return Policy(most_rows=most_mb * 1_000) if most_mb else Policy()


@contextmanager
def silent_jvm() -> Iterator[None]:
    """A block in which whoever is started gets no stderr of ours."""
    own, nowhere = os.dup(_STDERR), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, _STDERR)
    try:
        yield
    finally:
        os.dup2(own, _STDERR)
        os.close(own)
        os.close(nowhere)
