"""A run that is killed, or whose attempts publish at the same time: `... killed_run --help`.

It is built as `arco run --root` is, except that the worker's ports are wrapped by those of
`tests.flow.faults.kill_points`. Start it in a new session: it kills its whole process group. It ends with
an error if the kill point is never reached.
"""

import argparse
import asyncio
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from arco.cli.flags import Server
from arco.cli.flow.connection import ArcoTarget, ConnectedArco, connect_arco
from arco.cli.flow.flags import EmbeddedAddress, PartitionChoice
from arco.cli.flow.plan import make_plan
from arco.cli.flow.project import LoadedProject, load
from arco.cli.flow.run_execution import worker_name
from arco.cli.flow.spark_executor import spark_needs
from arco.client.task_catalog import HttpTaskCatalog
from arco.core.ids import new_ulid
from arco.core.runtime import Runtime, system_runtime
from arco.flow.coordinator.messages import RunRequest, RunStatus
from arco.flow.coordinator.ports import TaskCoordinator
from arco.flow.spark.engine import SparkOpener
from arco.flow.spark.executor import SparkExecutor
from arco.flow.worker.ports import Executor, StaticProjectCode, TaskCatalog, project_code
from arco.flow.worker.worker import Worker
from tests.flow.faults.kill_points import (
    BarrierExecutor,
    KillBook,
    KillExecutor,
    KillPoint,
    KillSwitch,
    KillTaskCatalog,
)
from tests.flow.faults.pipeline import NAP
from tests.flow.faults.spark_flags import MEMORY, SETTINGS

NAP_MS = 600_000  # longer than any test lasts
MISSED = "the kill point was never reached"


@dataclass(frozen=True)
class Run:
    """What is run, and where."""

    root: str
    project: str
    selection: list[str]
    partitions: str
    slots: int


async def run_until_killed(wanted: Run, kill_switch: KillSwitch) -> None:
    """Work on a run until the kill point."""
    naps = {NAP: str(NAP_MS)} if kill_switch.point is KillPoint.DURING_WRITE else {}
    runtime, loaded = system_runtime(), load(wanted.project)
    async with _arco(wanted, runtime) as arco, _catalog(arco, runtime) as catalog:
        executor = await _spark(
            wanted, arco, loaded, catalog, KillTaskCatalog(catalog, kill_switch), runtime
        )
        coordinator = KillBook(arco.coordinator, kill_switch)
        await _work(
            wanted, arco, loaded, coordinator, KillExecutor(executor, kill_switch), runtime, naps
        )


async def together(wanted: Run) -> RunStatus:
    """A run whose attempts all wait for each other before they publish."""
    runtime, loaded = system_runtime(), load(wanted.project)
    async with _arco(wanted, runtime) as arco, _catalog(arco, runtime) as catalog:
        executor = await _spark(wanted, arco, loaded, catalog, catalog, runtime)
        meeting = BarrierExecutor(executor, threading.Barrier(wanted.slots))
        try:
            run_id = await _work(wanted, arco, loaded, arco.coordinator, meeting, runtime, {})
            return (await arco.coordinator.get_run(run_id, 1, 30_000)).status
        finally:
            await runtime.tasks.in_thread(executor.close)


def _arco(wanted: Run, runtime: Runtime) -> AbstractAsyncContextManager[ConnectedArco]:
    target = ArcoTarget(Server(), EmbeddedAddress(root=wanted.root, no_fsync=True))
    return connect_arco(target, runtime, creates_store=True)


@asynccontextmanager
async def _catalog(arco: ConnectedArco, runtime: Runtime) -> AsyncIterator[HttpTaskCatalog]:
    catalog = HttpTaskCatalog(arco.url, runtime)
    try:
        yield catalog
    finally:
        catalog.close()


async def _spark(
    wanted: Run,
    arco: ConnectedArco,
    loaded: LoadedProject,
    catalog: HttpTaskCatalog,
    seen: TaskCatalog,
    runtime: Runtime,
) -> SparkExecutor:
    opener = SparkOpener(
        arco.url,
        None,
        partial(spark_needs, loaded.project, catalog),
        master=f"local[{wanted.slots + 1}]",  # a pausing task leaves threads for the others
        settings=SETTINGS,
        memory=MEMORY,
    )
    await runtime.tasks.in_thread(opener)
    return SparkExecutor(loaded.project, seen, opener, runtime.clock, poll_s=0.2)


async def _work(
    wanted: Run,
    arco: ConnectedArco,
    loaded: LoadedProject,
    coordinator: TaskCoordinator,
    executor: Executor,
    runtime: Runtime,
    params: dict[str, str],
) -> str:
    choice, now_ms = PartitionChoice(partitions=wanted.partitions), runtime.clock.now_ms()
    plan = await make_plan(arco.coordinator, loaded, wanted.selection, choice, now_ms)
    key, name = f"killed:{new_ulid(runtime)}", worker_name(runtime)
    begun = await arco.coordinator.submit(
        RunRequest(run_key=key, plan=plan, worker=name, params=params)
    )
    print(begun.run_id, flush=True)
    project = loaded.project
    worker = Worker(
        coordinator,
        executor,
        runtime,
        name=name,
        slots=wanted.slots,
        code=StaticProjectCode(project.name, project_code(project)),
    )
    await worker.run(begun.run_id)
    return begun.run_id


def main() -> None:
    """One run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True)
    parser.add_argument("--project", required=True)
    parser.add_argument("--partitions", required=True)
    parser.add_argument("--moment", type=KillPoint, help="the kill point")
    parser.add_argument("--tables", default="", help="tables that have to reach it")
    parser.add_argument("--meet", type=int, help="so many publish at the same time, without a kill")
    parser.add_argument("selection", nargs="*")
    given = parser.parse_args()
    tables = [f"default.{each}" for each in given.tables.split(",")]
    slots = given.meet or len(tables)
    wanted = Run(given.root, given.project, given.selection, given.partitions, slots)
    if given.meet:
        status = asyncio.run(together(wanted))
        sys.exit(status is not RunStatus.SUCCESS)
    asyncio.run(run_until_killed(wanted, KillSwitch(given.moment, tables)))
    sys.exit(MISSED)


if __name__ == "__main__":
    main()
