"""A run that dies, or whose attempts publish at one moment: `python -m tests.flow.faults.doomed --help`.

It is put together as `arco run --root` is, except that a worker's ports go through those of
`tests.flow.faults.moments`. Start it in a session of its own: it kills its whole group of processes.
It ends by itself with an error if the moment never comes.
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
from arco.cli.flow.flags import EmbeddedPlace, PartitionChoice
from arco.cli.flow.plan import make_plan
from arco.cli.flow.project import LoadedProject, load
from arco.cli.flow.run_execution import worker_name
from arco.cli.flow.spark_executor import spark_needs
from arco.client.lake import HttpLake
from arco.core.ids import new_ulid
from arco.core.runtime import Runtime, system_runtime
from arco.flow.run.port import TaskBook
from arco.flow.run.wire import RunStatus, RunWish
from arco.flow.spark.executor import SparkExecutor
from arco.flow.spark.opening import Opening
from arco.flow.work.code import FixedCode, code_of
from arco.flow.work.port import Executor, Lake
from arco.flow.work.worker import Worker
from tests.flow.faults.moments import (
    Doom,
    DoomedBook,
    DoomedExecutor,
    DoomedLake,
    MeetingExecutor,
    Moment,
)
from tests.flow.faults.pipeline import NAP
from tests.flow.faults.spark import MEMORY, SETTINGS

NAP_MS = 600_000  # longer than any test lasts
MISSED = "the moment never came"


@dataclass(frozen=True)
class Run:
    """What is run, and where."""

    root: str
    project: str
    selection: list[str]
    partitions: str
    slots: int


async def doomed(wanted: Run, doom: Doom) -> None:
    """Work on a run until the moment comes."""
    naps = {NAP: str(NAP_MS)} if doom.moment is Moment.DURING_WRITE else {}
    runtime, loaded = system_runtime(), load(wanted.project)
    async with _arco(wanted, runtime) as arco, _lake(arco, runtime) as lake:
        executor = await _spark(wanted, arco, loaded, lake, DoomedLake(lake, doom), runtime)
        book = DoomedBook(arco.coordinator, doom)
        await _work(wanted, arco, loaded, book, DoomedExecutor(executor, doom), runtime, naps)


async def together(wanted: Run) -> RunStatus:
    """Carry a run out whose attempts all wait for each other before they publish."""
    runtime, loaded = system_runtime(), load(wanted.project)
    async with _arco(wanted, runtime) as arco, _lake(arco, runtime) as lake:
        executor = await _spark(wanted, arco, loaded, lake, lake, runtime)
        meeting = MeetingExecutor(executor, threading.Barrier(wanted.slots))
        try:
            run_id = await _work(wanted, arco, loaded, arco.coordinator, meeting, runtime, {})
            return (await arco.coordinator.look(run_id, 1, 30_000)).status
        finally:
            await runtime.tasks.in_thread(executor.close)


def _arco(wanted: Run, runtime: Runtime) -> AbstractAsyncContextManager[ConnectedArco]:
    return connect_arco(
        ArcoTarget(Server(), EmbeddedPlace(root=wanted.root, no_fsync=True)), runtime
    )


@asynccontextmanager
async def _lake(arco: ConnectedArco, runtime: Runtime) -> AsyncIterator[HttpLake]:
    lake = HttpLake(arco.url, runtime)
    try:
        yield lake
    finally:
        lake.close()


async def _spark(
    wanted: Run,
    arco: ConnectedArco,
    loaded: LoadedProject,
    lake: HttpLake,
    seen: Lake,
    runtime: Runtime,
) -> SparkExecutor:
    opening = Opening(
        arco.url,
        None,
        partial(spark_needs, loaded.project, lake),
        master=f"local[{wanted.slots + 1}]",  # who naps keeps nobody else from working
        settings=SETTINGS,
        memory=MEMORY,
    )
    await runtime.tasks.in_thread(opening)
    return SparkExecutor(loaded.project, seen, opening, runtime.clock, poll_s=0.2)


async def _work(
    wanted: Run,
    arco: ConnectedArco,
    loaded: LoadedProject,
    book: TaskBook,
    executor: Executor,
    runtime: Runtime,
    params: dict[str, str],
) -> str:
    choice, now_ms = PartitionChoice(partitions=wanted.partitions), runtime.clock.now_ms()
    plan = await make_plan(arco.coordinator, loaded, wanted.selection, choice, now_ms)
    key, name = f"doomed:{new_ulid(runtime)}", worker_name(runtime)
    begun = await arco.coordinator.submit(
        RunWish(run_key=key, plan=plan, worker=name, params=params)
    )
    print(begun.run_id, flush=True)
    project = loaded.project
    worker = Worker(
        book,
        executor,
        runtime,
        name=name,
        slots=wanted.slots,
        code=FixedCode(project.name, code_of(project)),
    )
    await worker.run(begun.run_id)
    return begun.run_id


def main() -> None:
    """One run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True)
    parser.add_argument("--project", required=True)
    parser.add_argument("--partitions", required=True)
    parser.add_argument("--moment", type=Moment, help="when it dies")
    parser.add_argument("--tables", default="", help="those that have to come to the moment")
    parser.add_argument("--meet", type=int, help="so many publish at one moment, and nobody dies")
    parser.add_argument("selection", nargs="*")
    given = parser.parse_args()
    tables = [f"default.{each}" for each in given.tables.split(",")]
    slots = given.meet or len(tables)
    wanted = Run(given.root, given.project, given.selection, given.partitions, slots)
    if given.meet:
        status = asyncio.run(together(wanted))
        sys.exit(status is not RunStatus.SUCCESS)
    asyncio.run(doomed(wanted, Doom(given.moment, tables)))
    sys.exit(MISSED)


if __name__ == "__main__":
    main()
