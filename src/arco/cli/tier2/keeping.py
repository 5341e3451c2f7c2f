"""The keeper of a server, put together: which child it starts, and for how long."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from arco.api.health_monitor import CompactionStatus, FixedCompactionStatus
from arco.api.http.telemetry import Log
from arco.api.metrics import Metrics
from arco.cli.keep import Keep
from arco.cli.pacing import CompactEvery
from arco.cli.place import Place
from arco.cli.spark import Spark, is_installed
from arco.cli.tier2.keeper import Care, Keeper
from arco.cli.tier2.process import Process, worker_command
from arco.cli.tier2.reports import Reports
from arco.cli.trouble import teller
from arco.compactor.behind import is_behind
from arco.core.environment import compaction_environment
from arco.fold.tier2 import TIER2
from arco.ledger.writers import Ring, nobody
from arco.storage.store import Store


def make_keeper(
    place: Place,
    spark: Spark,
    keep: Keep,
    store: Store,
    *,
    pacing: CompactEvery,
    log: Log,
    metrics: Metrics,
    care: Care,
    nice: int = 0,
    loud: bool = False,
) -> Keeper | None:
    """Who keeps a child for the events of a place; None where they are left in the ledger."""
    if _why_not(place, spark) is not None:
        return None
    flags = [*place.arguments(), *spark.arguments(), *keep.arguments(), *pacing.arguments()]
    arguments = [*flags, "--nice", str(nice)]

    def start() -> Process:
        environment = compaction_environment(os.environ, place.address().scheme)
        return Process(worker_command(arguments), environment=environment, loud=loud)

    async def anything() -> bool:
        return any([await is_behind(store, domain, keep.spans()) for domain in TIER2])

    keeper = Keeper(
        start,
        store.runtime,
        care=care,
        is_behind=anything,
        heard=Reports(log, metrics).take,
        tell=teller(log, metrics),
    )
    metrics.compaction.watch(lambda: keeper.is_up)
    metrics.health.watch_spark(keeper.memory)
    return keeper


def ringing(keeper: Keeper | None) -> Ring:
    """Who hears of new events."""
    return nobody if keeper is None else keeper.ring


def compaction(keeper: Keeper | None, place: Place, spark: Spark) -> CompactionStatus:
    """Who compacts events, for whoever asks after the server's health."""
    return FixedCompactionStatus("off", _why_not(place, spark)) if keeper is None else keeper


def _why_not(place: Place, spark: Spark) -> str | None:
    """Why events are left in the ledger; None if they are not."""
    if spark.no_spark:
        why = "Arco was started with --no-spark"
    elif not is_installed():
        why = "Spark is not installed"
    elif place.address().scheme == "memory":
        why = "a store in memory is seen by its own process alone"
    else:
        return None
    return f"{why}: events wait in the ledger, and fresh reads show them"


@asynccontextmanager
async def keeping(keeper: Keeper | None) -> AsyncIterator[None]:
    """A block beside which events are compacted, if they are."""
    if keeper is None:
        yield
        return
    keeper.open()
    try:
        yield
    finally:
        await keeper.close()
