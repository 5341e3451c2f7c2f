"""What a task costs besides its work: 1,000 tasks that do nothing, with all their events, on local disk.

Everything is as in `arco run --root`: the book of runs, a worker and the executor in one process, each step
durable before the next. What is promised is the time beyond two durable creates a task that stand one after
the other; these are measured beside it, on the same disk. Dagster and Prefect run the same shapes in their
own environment, if `make bench` could install them.
"""

import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

import msgspec

from arco.client.task_catalog import HttpTaskCatalog
from arco.core.ids import new_ulid
from arco.core.runtime import Runtime
from arco.flow.coordinator.messages import RunRequest, RunStatus
from arco.flow.define import load_project
from arco.flow.plan.plan import Maker, Plan, PlannedTask, Reason
from arco.flow.spark.executor import SparkExecutor
from arco.flow.worker.ports import StaticProjectCode
from arco.flow.worker.worker import Worker
from arco.server.embedded import EmbeddedServer, embedded_server
from arco.server.workspace_address import WorkspaceAddress
from arco.storage.local import LocalBackend
from arco.storage.open import open_store
from arco.storage.roles import Role
from bench.figure import Figure, percentile

TASKS = 1_000
SHAPES = ("chain", "fan", "diamond")
SLOTS = 8

_CREATES = 2  # a task's, one after the other
_MOST_MS = 2.0
_PEERS = Path(__file__).parent.parent / ".venv-peers" / "bin" / "python"
_PROJECT = """\
from arco import Static, task

@task("nothing", partitions=Static("n", [f"{n:04d}" for n in range(%d)]))
def nothing(ctx):
    pass
"""


async def run(runtime: Runtime, scratch: Path) -> list[Figure]:
    """Each shape in turn, ours and theirs."""
    figures = []
    for shape in SHAPES:
        with TemporaryDirectory(dir=scratch) as folder:
            create_ms = await _create_ms(runtime, Path(folder) / "plain")
            ours = await _task_ms(runtime, Path(folder), shape)
        beyond = ours - _CREATES * create_ms
        figures.append(
            Figure(
                f"{TASKS:,} tasks that do nothing, {shape}: ms a task beyond {_CREATES} creates",
                f"{beyond:.2f}",
                f"{ours:.2f} in all, a create {create_ms:.2f}",
                "",
                f"{_MOST_MS:.0f}",
                beyond <= _MOST_MS,
            )
        )
        figures += [
            Figure(
                f"  the same on {name}, ms a task", f"{ours:.2f}", f"{ms:.2f}", f"1/{ms / ours:.1f}"
            )
            for name, ms in _theirs(shape).items()
        ]
    return figures


async def _create_ms(runtime: Runtime, folder: Path) -> float:
    """What one durable create of the size of a task's events takes, alone, at the median."""
    store = await open_store(LocalBackend(folder, runtime), runtime, role=Role.FLOW)
    taken = []
    for number in range(300):
        began = time.perf_counter()
        await store.create(f"logs/{number:06d}.txt", b"x" * 600)
        taken.append(1000 * (time.perf_counter() - began))
    return percentile(taken, 0.5)


async def _task_ms(runtime: Runtime, folder: Path, shape: str) -> float:
    project_folder = folder / "project"
    (project_folder / "pipelines").mkdir(parents=True)
    (project_folder / "pipelines" / "nothing.py").write_text(_PROJECT % TASKS)
    project = load_project(project_folder)
    async with embedded_server(WorkspaceAddress(root=str(folder / "store")), runtime) as arco:
        catalog = HttpTaskCatalog(arco.url, runtime, token=None)
        executor = SparkExecutor(project, catalog, _no_spark, runtime.clock)
        worker = Worker(
            arco.coordinator,
            executor,
            runtime,
            name="bench",
            slots=SLOTS,
            code=StaticProjectCode(project.name),
        )
        try:
            return await _timed(arco, runtime, worker, plan_of(project.name, shape))
        finally:
            executor.close()
            catalog.close()


async def _timed(arco: EmbeddedServer, runtime: Runtime, worker: Worker, plan: Plan) -> float:
    began = time.perf_counter()
    request = RunRequest(run_key=new_ulid(runtime), plan=plan, worker="bench")
    begun = await arco.coordinator.submit(request)
    await worker.run(begun.run_id)
    taken = time.perf_counter() - began
    view = await arco.coordinator.get_run(begun.run_id)
    if view.status is not RunStatus.SUCCESS or view.counts.get("SUCCESS") != len(plan.tasks):
        raise AssertionError(f"the run ended as {view.status}: {view.counts}")
    return 1000 * taken / len(plan.tasks)


def plan_of(project: str, shape: str) -> Plan:
    """Tasks that do nothing, in this shape."""
    keys = [f"nothing@n={number:04d}" for number in range(TASKS)]
    return Plan(
        project=project,
        selection="",
        now_ms=0,
        state_number=-1,
        makers=(Maker(name="nothing", kind="task"),),
        tasks=tuple(
            PlannedTask(
                key=key,
                maker="nothing",
                partition=f"n={number:04d}",
                reason=Reason.MISSING,
                deps=tuple(keys[each] for each in _waits_for(shape, number)),
            )
            for number, key in enumerate(keys)
        ),
    )


def _waits_for(shape: str, number: int) -> list[int]:
    if number == 0:
        return []
    if shape == "chain":
        return [number - 1]
    if shape == "fan" or number < TASKS - 1:
        return [0]
    return list(range(1, TASKS - 1))


def _theirs(shape: str) -> dict[str, float]:
    """Milliseconds a task of the peers, as far as they are there."""
    if not _PEERS.exists():
        print("  Dagster and Prefect are not installed: without them", file=sys.stderr, flush=True)
        return {}
    seconds: dict[str, float] = {}
    for program in ("on_dagster.py", "on_prefect.py"):
        script = Path(__file__).parent / "peer_flows" / program
        done = subprocess.run(
            [str(_PEERS), str(script), shape, str(TASKS)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
            timeout=600,
        )
        if done.returncode:
            print(f"  {program} failed: without it", file=sys.stderr, flush=True)
            continue
        last = next(line for line in reversed(done.stdout.splitlines()) if line.startswith(b"{"))
        seconds |= msgspec.json.decode(last, type=dict[str, float])
    return seconds


def _no_spark() -> NoReturn:
    raise AssertionError("a task that asks for no Spark has started it")
