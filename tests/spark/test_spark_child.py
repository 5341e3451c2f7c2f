"""A child whose Spark hangs: it says so, it ends, and its supervisor starts another."""

import os
import signal
import sys
from pathlib import Path

import pytest

from arco.core.errors import Unsupported
from arco.core.java import check_java
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.ledger.writer import LedgerWriter
from arco.server.spark_child import (
    ChildMessage,
    ChildProcess,
    CyclePublished,
    SparkReady,
    WorkFailed,
)
from arco.server.spark_supervisor import ChildExited, ChildPolicy, SparkSupervisor
from arco.storage.local import LocalBackend
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.compactor.test_event_compactor import started
from tests.processes.server import eventually
from tests.processes.spark_child import is_running, jvm_of

DOMAIN = "executions"

# `arco tier2-worker`, with less patience than users get.
HASTY = """
from arco.compactor.spark.engine import SparkEngine
SparkEngine.__init__.__kwdefaults__["patience_ms"] = 15_000
from arco.cli.main import main
main()
"""


@pytest.mark.interop  # it starts a JVM twice, and waits
async def test_a_child_whose_jvm_hangs_is_replaced_and_reported_meanwhile(
    runtime: Runtime, tmp_path: Path
) -> None:
    try:
        check_java()
    except Unsupported as missing:
        pytest.skip(str(missing))
    root = tmp_path / "root"
    writer = LedgerWriter(
        Store(LocalBackend(root, runtime, fsync=False), runtime, scope=Scope(), role=Role.API),
        DOMAIN,
    )
    children: list[ChildProcess] = []
    heard: list[ChildMessage | ChildExited] = []
    states: list[str] = []

    def start() -> ChildProcess:
        flags = ["tier2-worker", "--root", str(root), "--master", "local[1]"]
        children.append(ChildProcess([sys.executable, "-c", HASTY, *flags]))
        return children[-1]

    async def is_behind() -> bool:
        return True

    def hear(message: ChildMessage | ChildExited) -> None:
        heard.append(message)
        states.append(supervisor.state)

    async def until(kind: type, count: int = 1) -> None:
        async def look() -> bool:
            return sum(isinstance(each, kind) for each in heard) >= count

        await eventually(look, within_s=120)

    supervisor = SparkSupervisor(
        start,
        runtime,
        policy=ChildPolicy(),
        has_backlog=is_behind,
        report=hear,
        failed=lambda operation, problem: heard.append(WorkFailed(operation, str(problem))),
    )
    async with supervisor.running():
        await until(SparkReady)
        hung = jvm_of(children[0].pid)
        os.kill(hung, signal.SIGSTOP)
        receipt = await writer.append([started(runtime, "e")])
        supervisor.notify(DOMAIN, receipt.stream)
        await until(ChildExited)
        failed = [each for each in heard if isinstance(each, WorkFailed)]
        assert "no task of Spark has ended for 0.25 minutes" in failed[0].detail
        assert states[-1] == "restarting"
        assert not is_running(hung), "what hangs is killed"
        await until(CyclePublished)
        assert len(children) == 2
