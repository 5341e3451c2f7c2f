"""Compaction of events in this process, on a Spark session that is opened and stopped with it.

The Spark child of a server runs `open_compaction` until it is stopped; `arco compactor --once` and
`--rebuild` run `compact_once` and `rebuild_domains`.
"""

import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from arco.compactor.event_compactor import EventCompactor
from arco.compactor.tail_merge import TailPolicy
from arco.core.errors import Invalid
from arco.core.runtime import Runtime
from arco.fold.tier2 import TIER2
from arco.server.settings import CompactionSettings
from arco.server.workspace_address import WorkspaceAddress
from arco.storage.open import open_store
from arco.storage.roles import Role
from arco.storage.store import Store

if TYPE_CHECKING:
    from arco.compactor.domain_compactor import CycleReport
    from arco.compactor.rebuild import RebuildReport
    from arco.compactor.spark.engine import SparkEngine
    from arco.compactor.spark.session import Session

_STDERR = 2
_STOP_TIMEOUT_MS = 2_000  # for Spark; without it the JVM ends with its process


@dataclass(frozen=True)
class CompactionSession:
    """Compaction on an open Spark session."""

    engine: "SparkEngine"
    tier2: EventCompactor


async def open_compactor_store(address: WorkspaceAddress, runtime: Runtime) -> Store:
    """The store of a workspace, in the role of the compactor."""
    backend = address.backend(runtime)
    return await open_store(backend, runtime, role=Role.COMPACTOR, scope=address.scope())


@asynccontextmanager
async def open_compaction(
    address: WorkspaceAddress,
    settings: CompactionSettings,
    store: Store,
    *,
    domains: Sequence[str] = tuple(TIER2),
    failed: Callable[[str, Exception], None] | None = None,
    report: "Callable[[CycleReport], None] | None" = None,
    quiet: bool = False,
) -> AsyncIterator[CompactionSession]:
    """Compaction on a warm session; `Unavailable` if Spark does not start.

    `quiet` keeps the JVM from writing to stderr.
    """
    from arco.compactor.spark.engine import SparkEngine
    from arco.compactor.spark.session import open_session
    from arco.storage.open import make_store_spec

    spec = make_store_spec(address.address(), address.scope(), fsync=not address.no_fsync)
    tasks = store.runtime.tasks
    with silent_jvm() if quiet else nullcontext():
        session = await tasks.in_thread(
            lambda: open_session(
                settings.spark.master, settings.spark.remote, store_scheme=spec.scheme
            )
        )
    engine = SparkEngine(session, spec, store.runtime)
    try:
        await engine.warm_up()
        tier2 = EventCompactor(
            store,
            engine,
            domains=domains,
            retention=settings.rows.spans(),
            on_failure=failed,
            report=report,
            pace=settings.interval.pace(),
            policy=_merge_policy(),
        )
        yield CompactionSession(engine, tier2)
        await tier2.close()
    finally:
        with suppress(Exception):  # the JVM may have exited already
            await tasks.deadline(_STOP_TIMEOUT_MS, tasks.in_thread(session.stop))


async def compact_with_session(
    session: "Session", address: WorkspaceAddress, store: Store, domains: Sequence[str]
) -> "list[CycleReport]":
    """Compact all events on the Spark of a caller, which stays open."""
    from arco.compactor.spark.engine import SparkEngine
    from arco.compactor.spark.session import open_sibling_session
    from arco.storage.open import make_store_spec

    spec = make_store_spec(address.address(), address.scope(), fsync=not address.no_fsync)
    own_session = await store.runtime.tasks.in_thread(lambda: open_sibling_session(session))
    tier2 = EventCompactor(store, SparkEngine(own_session, spec, store.runtime), domains=domains)
    try:
        return await tier2.once()
    finally:
        await tier2.close()


async def compact_once(
    address: WorkspaceAddress,
    settings: CompactionSettings,
    domains: Sequence[str],
    runtime: Runtime,
    *,
    show: Callable[[str], None],
) -> "list[CycleReport]":
    """Compact all events of the domains; no cycles where there is nothing to compact.

    `show` receives a line about the work in progress.
    """
    from arco.compactor.backlog import has_backlog

    store = await open_compactor_store(address, runtime)
    behind = [each for each in domains if await has_backlog(store, each, settings.rows.spans())]
    if not behind:  # not worth a start of Spark
        return []
    events = 0

    def report(cycle: "CycleReport") -> None:
        nonlocal events
        events += cycle.counts.events
        show(f"{cycle.domain}: {events:,} events so far")

    show("starting Spark")
    opening = open_compaction(address, settings, store, domains=behind, report=report, quiet=True)
    async with opening as session:
        show("compacting")
        return await session.tier2.once()


async def rebuild_domains(
    address: WorkspaceAddress,
    settings: CompactionSettings,
    domains: Sequence[str],
    runtime: Runtime,
    *,
    show: Callable[[str], None],
    report: "Callable[[RebuildReport], None]",
) -> int:
    """Rebuild the tables of each domain that has any from the ledger; how many domains."""
    from arco.catalog.manifest import manifests_of
    from arco.compactor.rebuild import rebuild

    store = await open_compactor_store(address, runtime)
    published = [each for each in domains if (await manifests_of(store, each).head()).number >= 0]
    if not published:
        return 0
    show("starting Spark")
    opening = open_compaction(address, settings, store, domains=published, quiet=True)
    async with opening as session:
        for domain in published:
            show(f"rebuilding {domain}")
            report(await rebuild(store, domain, session.engine))
    return len(published)


def parse_event_domain(domain: str | None) -> tuple[str, ...]:
    """The domains that `--domain` selects, or `Invalid`."""
    if domain is None:
        return tuple(TIER2)
    if domain not in TIER2:
        raise Invalid(f"--domain takes {', '.join(TIER2)}, not {domain[:80]!r}")
    return (domain,)


@contextmanager
def silent_jvm() -> Iterator[None]:
    """Run a block with stderr closed to the processes that it starts."""
    own_stderr, null = os.dup(_STDERR), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, _STDERR)
    try:
        yield
    finally:
        os.dup2(own_stderr, _STDERR)
        os.close(own_stderr)
        os.close(null)


def _merge_policy() -> TailPolicy:
    """Merges that fit into the memory of a worker: a row takes about a kilobyte while it is folded."""
    from arco.compactor.spark.memory import limit_mb

    max_mb = limit_mb()
    return TailPolicy(most_rows=max_mb * 1_000) if max_mb else TailPolicy()
