"""A run from the request to the report, as `arco run` and `arco retry` both need it."""

import getpass
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from arco.cli.flow.connection import (
    ArcoTarget,
    ConnectedArco,
    call_in_thread,
    connect_arco,
)
from arco.cli.flow.flags import PartitionChoice, SparkFlags, pairs
from arco.cli.flow.plan import make_plan, plan_again
from arco.cli.flow.plan_rendering import blocked_lines, headline, waiting_lines
from arco.cli.flow.project import LoadedProject
from arco.cli.flow.run_execution import (
    LocalWorker,
    ProgressView,
    RunExecution,
    is_interactive,
    worker_name,
)
from arco.cli.flow.run_progress import RunProgress
from arco.cli.flow.run_summary import HEADINGS, RunSummary, run_document
from arco.cli.output import print_document
from arco.cli.rendering import one_line, print_rows
from arco.core.clock import utc
from arco.core.errors import Invalid
from arco.core.ids import new_ulid
from arco.core.runtime import system_runtime
from arco.flow.coordinator.messages import (
    ANY_WORKER,
    RUN_END_WAIT_MS,
    RunRequest,
    RunView,
    TaskStatus,
)
from arco.flow.coordinator.ports import nothing_to_retry, run_not_over
from arco.flow.plan.plan import Plan
from arco.flow.worker.ports import StaticProjectCode, project_code
from arco.flow.worker.stdout import capture_stdout, process_stdout
from arco.server.embedded_compaction import EmbeddedCompaction

if TYPE_CHECKING:
    from arco.cli.flow.spark_executor import ProjectExecutor

MAX_PARALLEL = 1_000

_LOOK_MS = 250


@dataclass(frozen=True)
class RunSettings:
    """A run as the flags ask for it."""

    loaded: LoadedProject
    modules: Mapping[str, bytes]
    target: ArcoTarget
    spark: SparkFlags
    parallel: int = 2
    param: tuple[str, ...] = ()
    as_json: bool = False
    detach: bool = False


def check_request(target: ArcoTarget, spark: SparkFlags, parallel: int, *, detach: bool) -> None:
    """Refuse flags that cannot work, before a project is loaded or a connection is opened."""
    if not 1 <= parallel <= MAX_PARALLEL:
        raise Invalid(f"--parallel takes 1 to {MAX_PARALLEL:,} tasks at once, not {parallel}")
    if detach and target.is_embedded:
        raise Invalid(
            "--detach leaves the run to other workers, but --root starts an Arco that ends with this "
            "command: use --url"
        )
    if not detach:
        spark.check()


class RunReport:
    """What is printed before, during and after a run; one document at the end for programs."""

    def __init__(
        self, progress: RunProgress, target: str, project: str = "", *, as_json: bool
    ) -> None:
        self.progress = progress
        self._target = target
        self._project = project
        self._as_json = as_json

    def print(self, line: str) -> None:
        """Print a line for people, at once."""
        if not self._as_json:
            print(line, flush=True)

    def print_plan(self) -> None:
        """Print the plan in short: what, how much, and why."""
        if self._as_json:
            return
        from arco.cli.flow.plan import print_plan

        plan = self.progress.plan
        if plan.tasks:
            print_plan(plan)
            print(flush=True)
            return
        for line in (*waiting_lines(plan), *blocked_lines(plan), headline(plan)):
            print(one_line(line))

    def print_detached(self, submitted: RunView) -> int:
        """Print that the run is left to workers; 1 if some of the request is not part of it."""
        plan = self.progress.plan
        left_out = len(plan.waiting) + len(plan.blocked)
        code = 1 if left_out else 0
        if self._as_json:
            self.progress.update(submitted)
            print_document(run_document(self.progress))
            return code
        flags = f" {self._target}" if self._target else ""
        own = f" {self._project}{flags}" if self._project else flags
        print(f"Run {submitted.run_id} waits for workers. `arco worker{own}` starts one,", end=" ")
        print(f"`arco runs {submitted.run_id}{flags}` shows its status.")
        if left_out:
            print(
                f"{left_out:,} of what was asked for cannot be made, and is not part of this run."
            )
        return code

    def print_end(self) -> int:
        """Print the summary; the exit code."""
        summary = RunSummary(self.progress)
        if self._as_json:
            print_document(run_document(self.progress))
        elif self.progress.run is not None:
            self._print_summary(summary)
        return 0 if summary.is_good else 1

    def _print_summary(self, summary: RunSummary) -> None:
        print()
        if rows := summary.rows():
            print_rows(HEADINGS, rows)
            print()
        for line in summary.failures():
            print(line)
        for line in (*waiting_lines(self.progress.plan), *blocked_lines(self.progress.plan)):
            print(one_line(line))
        print(summary.headline())
        print("\nNext:")
        steps = summary.next_steps(self._target, self._project)
        width = max(len(command) for command, _ in steps)
        for command, what in steps:
            print(f"  {command:<{width}}   {what}")


class RunSession:
    """Carries one run out, or hands it over to workers."""

    def __init__(self, request: RunSettings) -> None:
        self._request = request
        self._params = dict(pairs("--param", request.param))
        self._runtime = system_runtime()
        self._name = ANY_WORKER if request.detach else worker_name(self._runtime)

    async def start(self, selection: Sequence[str], choice: PartitionChoice) -> int:
        """Start a run of what has to be made; the exit code."""
        request = self._request
        async with connect_arco(request.target, self._runtime, creates_store=True) as arco:
            arco.host(self._name)
            now_ms = self._runtime.clock.now_ms()
            plan = await make_plan(arco.coordinator, request.loaded, selection, choice, now_ms)
            report = self._report(plan)
            report.print_plan()
            if not plan.tasks:
                return report.print_end()
            async with self._open_executor(arco, plan, report) as executor:
                submitted = await arco.coordinator.submit(self._run_request(plan))
                return await self._finish(arco, submitted, report, executor)

    async def retry(self, run_id: str) -> int:
        """Start a run of what an older one has not done, planned with the present code; the exit code."""
        async with connect_arco(self._request.target, self._runtime) as arco:
            arco.host(self._name)
            run_id = await self._find_run(arco, run_id)
            remaining = await self._remaining(arco, run_id)
            plan = await self._plan_remaining(arco, remaining)
            report = self._report(plan)
            report.print_plan()
            async with self._open_executor(arco, plan, report) as executor:
                new = await arco.coordinator.retry(run_id, self._name, plan)
                submitted = await arco.coordinator.get_run(new.run_id)  # with all of its tasks
                return await self._finish(arco, submitted, report, executor)

    async def _find_run(self, arco: ConnectedArco, text: str) -> str:
        target = self._request.target
        return await call_in_thread(target, arco, self._runtime, lambda each: each.runs.find(text))

    async def _plan_remaining(self, arco: ConnectedArco, remaining: RunView) -> Plan:
        """A plan of the tasks that a run has left, by the project and the tables as they are now."""
        loaded, now_ms = self._request.loaded, self._runtime.clock.now_ms()
        state = await arco.coordinator.state(loaded.tables)
        return plan_again(loaded.project, remaining, state, utc(now_ms))

    async def _remaining(self, arco: ConnectedArco, run_id: str) -> RunView:
        """What a run has left to do. A run that is not over is refused here, before Spark is started."""
        clock = self._runtime.clock
        ends_ms = clock.elapsed_ms() + RUN_END_WAIT_MS
        while not (view := await arco.coordinator.get_run(run_id)).status.is_over:
            if clock.elapsed_ms() >= ends_ms:
                raise run_not_over(run_id)
            await clock.sleep(_LOOK_MS)
        undone = tuple(each for each in view.changed if each.status is not TaskStatus.SUCCESS)
        if not undone:
            raise nothing_to_retry(run_id)
        return msgspec.structs.replace(view, changed=undone)

    def _run_request(self, plan: Plan) -> RunRequest:
        return RunRequest(
            run_key=f"cli:{new_ulid(self._runtime)}",
            plan=plan,
            worker=self._name,
            triggered_by=_user(),
            params=self._params,
        )

    async def _finish(
        self,
        arco: ConnectedArco,
        submitted: RunView,
        report: RunReport,
        executor: "ProjectExecutor | None",
    ) -> int:
        if executor is None:
            return report.print_detached(submitted)
        execution = RunExecution(arco.coordinator, self._runtime, report.progress, report.print)
        project = self._request.loaded.project
        fixed = StaticProjectCode(project.name, project_code(project))
        worker = LocalWorker(executor, self._name, self._request.parallel, fixed)
        interrupted = await execution.execute(submitted, worker, self._view(report))
        code = report.print_end()
        if interrupted is not None:
            return interrupted
        if self._request.target.is_embedded:
            session = await self._runtime.tasks.in_thread(executor.lend)
            await EmbeddedCompaction(
                self._request.target.address, self._runtime, report.print
            ).after_command(session)
        return code

    def _report(self, plan: Plan) -> RunReport:
        request = self._request
        target, project = request.target.flags(), request.loaded.flags
        return RunReport(RunProgress(plan), target, project, as_json=request.as_json)

    def _view(self, report: RunReport) -> ProgressView:
        if self._request.as_json or not is_interactive():
            from arco.cli.flow.run_progress import ProgressLines

            return ProgressLines(report.progress, report.print)
        from rich.console import Console

        from arco.cli.flow.run_screen import ProgressScreen

        console = Console(highlight=False, file=process_stdout())
        return ProgressScreen(report.progress, console, self._runtime.clock.now_ms)

    @asynccontextmanager
    async def _open_executor(
        self, arco: ConnectedArco, plan: Plan, report: RunReport
    ) -> "AsyncIterator[ProjectExecutor | None]":
        if self._request.detach:
            yield None
            return
        from arco.cli.flow.spark_executor import make_executor

        request = self._request
        executor = make_executor(
            request.loaded, request.modules, arco, request.spark, self._runtime
        )
        in_thread = self._runtime.tasks.in_thread
        try:
            await in_thread(lambda: executor.warm_up(plan, report.print))
            with capture_stdout():  # to the end: code that does not stop may print until then
                yield executor
        finally:
            await in_thread(executor.close)


def _user() -> str | None:
    """The user of this machine, if the system knows one."""
    try:
        return f"user:{getpass.getuser()}"
    except (OSError, KeyError):
        return None
