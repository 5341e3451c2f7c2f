"""`arco worker`: a process with a warm Spark that takes tasks from a running server."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from arco.cli.flags import AsJson, Server
from arco.cli.flow.flags import FormatFlag, ProjectDir, Repeated, SparkFlags, command
from arco.cli.settings import Flag
from arco.core.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Callable

    from arco.cli.flow.connection import ArcoTarget
    from arco.cli.flow.project import LoadedFiles, LoadedProject
    from arco.flow.define import Project

_EXAMPLES = """\
Examples:
  arco worker                                  tasks of this project, two at a time
  arco worker --slots 8 --master spark://host:7077 --memory 4g
  arco worker --pool default                   only tasks of this pool
  arco worker --once                           run the ready tasks, then exit
  arco run --detach                            in another terminal: start a run

It runs only tasks that were planned with the code it has loaded, and reloads a
changed project when it runs no task.

SIGTERM or Ctrl-C stops it: it returns unfinished tasks, and other workers take
them over."""

_SERVER, _SPARK = Server(), SparkFlags()

app = command("worker", "Run tasks of a running server in a warm Spark session.", _EXAMPLES)


@app.default
def worker(
    *,
    project: ProjectDir = None,
    slots: Annotated[int, Parameter(metavar="N")] = 2,
    name: Annotated[str | None, Parameter(metavar="NAME")] = None,
    pool: Annotated[tuple[str, ...], Parameter.combine(Repeated, Parameter(metavar="NAME"))] = (),
    once: Flag = False,
    spark: SparkFlags = _SPARK,
    format_: FormatFlag = None,
    server: Server = _SERVER,
    json: AsJson = False,
) -> int:
    """Take tasks of this project from a running server and run them, until it is stopped.

    Parameters
    ----------
    slots
        The maximum number of tasks at the same time.
    name
        The name of the worker; by default made from the machine, the process and a few letters.
    pool
        Take only tasks of this pool; may be repeated. By default of all pools.
    once
        Exit when no task is left, with 1 if a task failed or was blocked.
    spark
        The Spark to run on.
    server
        The running server.
    json
        Print one JSON document at the end.
    """
    from arco.cli.flow.connection import ArcoTarget
    from arco.cli.flow.project import find_folder, load, load_files
    from arco.core import tasks
    from arco.flow.worker.stdout import capture_stdout
    from arco.server.workspace_address import WorkspaceAddress

    if not 1 <= slots <= 1_000:
        raise Invalid(f"--slots takes 1 to 1,000 tasks at once, not {slots}")
    if name is not None and not 1 <= len(name) <= 255:
        raise Invalid("--name takes 1 to 255 characters")
    spark.check()

    def load_checked() -> "LoadedProject":
        loaded = load(project, format_)
        _check_pools(loaded.project, pool)
        return loaded

    files = load_files(find_folder(project).resolve(), load_checked)
    reach = ArcoTarget(server, WorkspaceAddress())
    work = _Working(
        files,
        load_checked,
        reach,
        spark,
        slots=slots,
        name=name,
        pools=pool,
        once=once,
        as_json=json,
    )
    with capture_stdout():
        return tasks.run(work.work())


def _check_pools(project: "Project", pools: tuple[str, ...]) -> None:
    """A name that no task has would wait for ever."""
    pool_names = sorted({each.pool for each in project.makers()})
    for pool in pools:
        if pool not in pool_names:
            raise Invalid(
                f"--pool: no task is of the pool {pool[:80]!r}; there are {', '.join(pool_names)}"
            )


class _Working:
    """One worker, from its first task to the signal that ends it."""

    def __init__(
        self,
        files: "LoadedFiles",
        load: "Callable[[], LoadedProject]",
        reach: "ArcoTarget",
        spark: SparkFlags,
        *,
        slots: int,
        name: str | None,
        pools: tuple[str, ...],
        once: bool,
        as_json: bool,
    ) -> None:
        self._load = load
        self._files = files
        self._reach = reach
        self._spark = spark
        self._slots = slots
        self._name = name
        self._pools = pools
        self._once = once
        self._as_json = as_json

    async def work(self) -> int:
        from arco.cli.flow.connection import connect_arco
        from arco.cli.flow.project import ReloadingProject
        from arco.cli.flow.run_execution import (
            CountingExecutor,
            catch_signals,
            worker_name,
            worker_runtime,
        )
        from arco.cli.flow.spark_executor import make_executor
        from arco.core.runtime import system_runtime
        from arco.flow.worker.worker import Worker

        runtime = system_runtime()
        name = self._name or worker_name(runtime)
        async with connect_arco(self._reach, runtime, creates_store=True) as arco:
            files = self._files
            spark_executor = make_executor(files.loaded, files.modules, arco, self._spark, runtime)
            code = ReloadingProject(files, self._load, spark_executor, self._print_line)
            executor = CountingExecutor(spark_executor, self._print_line)
            await runtime.tasks.in_thread(spark_executor.warm_up)
            made = Worker(
                arco.coordinator,
                executor,
                worker_runtime(runtime, self._slots),
                name=name,
                slots=self._slots,
                code=code,
                pools=self._pools,
                on_unavailable=lambda problem: self._print_line(f"waiting for Arco: {problem}"),
                on_abandoned=executor.on_abandoned,
            )
            self._print_line(f"Worker {name} takes tasks of {code.project} from {arco.url}.")
            over = runtime.tasks.event()
            with catch_signals() as signals:
                waiting = runtime.tasks.spawn(signals.wait(runtime, over))
                try:
                    await made.run(until=over, once=self._once)
                finally:
                    waiting.cancel()
                    await runtime.tasks.in_thread(executor.close)
        self._print_end(name, executor.counts)
        return 1 if self._once and executor.unsuccessful else 0

    def _print_line(self, line: str) -> None:
        """A line for people, from any thread."""
        from arco.cli.rendering import one_line
        from arco.flow.worker.stdout import process_stdout

        if not self._as_json:
            print(one_line(line), file=process_stdout(), flush=True)

    def _print_end(self, name: str, counts: "dict[str, int]") -> None:
        from arco.cli.output import print_document

        if self._as_json:
            print_document({"worker": name, "tasks": counts})
            return
        ends = ((end.lower().replace("_", " "), count) for end, count in counts.items())
        summary = ", ".join(f"{count:,} {end}" for end, count in ends)
        print(f"Worker {name} ended: {summary or 'no tasks'}.")
