"""One run: senders of events while the processes of a deployment are killed, and the audit after it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.storage.address import parse_address
from arco.storage.open import open_backend
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.processes.deployment import TOKEN, place_of
from tests.processes.events_audit import (
    audit_apis,
    audit_files,
    audit_folds,
    audit_rows,
    figures,
)
from tests.processes.sender import send, stop_senders
from tests.processes.server import Server, eventually, running
from tests.processes.spark_killer import SIGN, EventDeployment, Killer

_SPARK = {"ARCO_NO_SPARK": "", "ARCO_COMPACT_EVERY": "0"}  # empty counts as not set


def all_in_one(url: str, logs: Path, runtime: Runtime, *, spark: bool = True) -> EventDeployment:
    """`arco up`, with Spark below it."""
    sign = uuid4().hex
    variables = {SIGN: sign} | (_SPARK if spark else {})
    server = Server(["up", *place_of(url)], log=logs / "up.log", **variables)
    return EventDeployment(
        "arco up", place_of(url), (server,), (server,), _looking(url, runtime), sign
    )


def apart(url: str, logs: Path, runtime: Runtime) -> EventDeployment:
    """Two compactors for one workspace, and two APIs: each rings for one of them."""
    sign = uuid4().hex
    shared = {"ARCO_SERVICE_TOKEN": TOKEN, SIGN: sign}
    compactors = tuple(
        Server(["compactor", *place_of(url)], log=logs / f"compactor-{n}.log", **_SPARK, **shared)
        for n in range(2)
    )
    apis = tuple(
        Server(
            ["api", *place_of(url), "--compactor", compactor.url],
            log=logs / f"api-{n}.log",
            **shared,
        )
        for n, compactor in enumerate(compactors)
    )
    name = "arco api x 2 + compactor x 2"
    return EventDeployment(name, place_of(url), apis, compactors, _looking(url, runtime), sign)


def _looking(url: str, runtime: Runtime) -> Store:
    backend = open_backend(parse_address(url), runtime, fsync=False)
    return Store(backend, runtime, scope=Scope(), role=Role.JANITOR)


async def killed(
    deployment: EventDeployment,
    kinds: Sequence[str],
    *,
    kills: int | None = None,
    pause_s: float,
    seed: int,
) -> str:
    """The figure of one run, if nothing is wrong: so many kills by chance, or one of each kind."""
    async with _up(deployment):
        senders = send([api.port for api in deployment.apis], pause_s=pause_s, seed=seed)
        killer = Killer(deployment, kinds, seed)
        try:
            await deployment.until_published(-1)
            await (killer.in_turn() if kills is None else killer.by_chance(kills))
        finally:
            report = await asyncio.to_thread(stop_senders, senders)
        await deployment.until_caught_up()
        wrong = await audit_apis(deployment, report)
    wrong += await asyncio.to_thread(audit_rows, deployment, report)
    folds = await audit_folds(deployment.store)
    wrong += folds.wrong + await asyncio.to_thread(audit_files, deployment)
    assert wrong == [], "\n".join([f"{len(wrong)} things are wrong (seed {seed})", *wrong[:20]])
    assert len(report.done) > 100 * len(killer.kills)  # or they came too early to mean anything
    return figures(deployment, report, folds, killer.kills)


@asynccontextmanager
async def _up(deployment: EventDeployment) -> AsyncIterator[None]:
    """All servers, and in the end nothing that any of them has started."""
    async with running(*deployment.servers):
        yield
        assert len(deployment.processes()) > len(
            deployment.servers
        )  # or nothing would be found below

    async def look() -> bool:
        return deployment.processes() == {}

    try:
        await eventually(look, within_s=30)
    except AssertionError:
        raise AssertionError(f"these were left behind: {deployment.processes()}") from None
