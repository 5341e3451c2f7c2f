"""A run from the wish to the report, as `arco run` and `arco retry` both need it."""

import getpass
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from arco.cli.flow.carrying import Carrying, Crew, Shown, is_watched, worker_name
from arco.cli.flow.connection import (
    ArcoTarget,
    ConnectedArco,
    call_in_thread,
    connect_arco,
)
from arco.cli.flow.flags import Choice, SparkFlags, pairs
from arco.cli.flow.planning import make_plan, plan_again
from arco.cli.flow.project import Loaded
from arco.cli.flow.report import Report
from arco.cli.flow.screen.board import Board
from arco.cli.flow.tidying import Tidying
from arco.core.clock import utc
from arco.core.errors import Invalid
from arco.core.ids import new_ulid
from arco.core.runtime import system_runtime
from arco.flow.plan.plan import Plan
from arco.flow.run.refused import all_made, not_over
from arco.flow.run.wire import ANYBODY, ENDING_MS, RunView, RunWish, TaskStatus
from arco.flow.work.code import FixedCode, code_of
from arco.flow.work.printed import own_stdout, stdout_of_ours

if TYPE_CHECKING:
    from arco.cli.flow.crew import SparkCrew

MOST_PARALLEL = 1_000

_LOOK_MS = 250


@dataclass(frozen=True)
class Asked:
    """What the flags say of a run."""

    loaded: Loaded
    modules: Mapping[str, bytes]
    reach: ArcoTarget
    spark: SparkFlags
    parallel: int = 2
    param: tuple[str, ...] = ()
    as_json: bool = False
    detach: bool = False


def check_running(reach: ArcoTarget, spark: SparkFlags, parallel: int, *, detach: bool) -> None:
    """Refuse what cannot work, before a project is loaded or anything is opened."""
    if not 1 <= parallel <= MOST_PARALLEL:
        raise Invalid(f"--parallel takes 1 to {MOST_PARALLEL:,} tasks at once, not {parallel}")
    if detach and reach.is_embedded:
        raise Invalid(
            "--detach leaves the run to others, and an Arco of its own ends with it: use --url"
        )
    if not detach:
        spark.check()


class Running:
    """Carries one run out, or hands it over to workers."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._params = dict(pairs("--param", asked.param))
        self._runtime = system_runtime()
        self._name = ANYBODY if asked.detach else worker_name(self._runtime)

    async def new(self, selection: Sequence[str], choice: Choice) -> int:
        """A new run of what has to be made."""
        asked = self._asked
        async with connect_arco(asked.reach, self._runtime) as arco:
            arco.host(self._name)
            now_ms = self._runtime.clock.now_ms()
            plan = await make_plan(arco.coordinator, asked.loaded, selection, choice, now_ms)
            report = self._report(plan)
            report.planned()
            if not plan.tasks:
                return report.ended()
            async with self._executor(arco, plan, report) as crew:
                begun = await arco.coordinator.submit(self._wish(plan))
                return await self._finish(arco, begun, report, crew)

    async def again(self, run_id: str) -> int:
        """A new run of what an older one has not done, planned with the present code."""
        async with connect_arco(self._asked.reach, self._runtime) as arco:
            arco.host(self._name)
            run_id = await self._find_run(arco, run_id)
            left = await self._left_of(arco, run_id)
            plan = await self._planned_again(arco, left)
            report = self._report(plan)
            report.planned()
            async with self._executor(arco, plan, report) as crew:
                new = await arco.coordinator.retry(run_id, self._name, plan)
                begun = await arco.coordinator.look(new.run_id)  # with all of its tasks
                return await self._finish(arco, begun, report, crew)

    async def _find_run(self, arco: ConnectedArco, given: str) -> str:
        target = self._asked.reach
        return await call_in_thread(target, arco, self._runtime, lambda each: each.runs.find(given))

    async def _planned_again(self, arco: ConnectedArco, left: RunView) -> Plan:
        """A plan of the tasks that are left of a run, by the project and the tables as they are now."""
        loaded, now_ms = self._asked.loaded, self._runtime.clock.now_ms()
        state = await arco.coordinator.state(loaded.tables)
        return plan_again(loaded.project, left, state, utc(now_ms))

    async def _left_of(self, arco: ConnectedArco, run_id: str) -> RunView:
        """What is left to do of a run that is over; of any other it is told before Spark is started."""
        clock = self._runtime.clock
        ends_ms = clock.elapsed_ms() + ENDING_MS
        while not (view := await arco.coordinator.look(run_id)).status.is_over:
            if clock.elapsed_ms() >= ends_ms:
                raise not_over(run_id)
            await clock.sleep(_LOOK_MS)
        left = tuple(each for each in view.changed if each.status is not TaskStatus.SUCCESS)
        if not left:
            raise all_made(run_id)
        return msgspec.structs.replace(view, changed=left)

    def _wish(self, plan: Plan) -> RunWish:
        return RunWish(
            run_key=f"cli:{new_ulid(self._runtime)}",
            plan=plan,
            worker=self._name,
            triggered_by=_whoever(),
            params=self._params,
        )

    async def _finish(
        self, arco: ConnectedArco, begun: RunView, report: Report, spark: "SparkCrew | None"
    ) -> int:
        if spark is None:
            return report.handed_over(begun)
        carrying = Carrying(arco.coordinator, self._runtime, report.board, report.say)
        project = self._asked.loaded.project
        fixed = FixedCode(project.name, code_of(project))
        crew = Crew(spark, self._name, self._asked.parallel, fixed)
        interrupted = await carrying.carry_out(begun, crew, self._shown(report))
        code = report.ended()
        if interrupted is not None:
            return interrupted
        if self._asked.reach.is_embedded:
            session = await self._runtime.tasks.in_thread(spark.lend)
            await Tidying(self._asked.reach.place, self._runtime, report.say).after(session)
        return code

    def _report(self, plan: Plan) -> Report:
        asked = self._asked
        reach, project = asked.reach.flags(), asked.loaded.flags
        return Report(Board(plan), reach, project, as_json=asked.as_json)

    def _shown(self, report: Report) -> Shown:
        if self._asked.as_json or not is_watched():
            from arco.cli.flow.screen.lines import Lines

            return Lines(report.board, report.say)
        from rich.console import Console

        from arco.cli.flow.screen.live import Screen

        console = Console(highlight=False, file=stdout_of_ours())
        return Screen(report.board, console, self._runtime.clock.now_ms)

    @asynccontextmanager
    async def _executor(
        self, arco: ConnectedArco, plan: Plan, report: Report
    ) -> "AsyncIterator[SparkCrew | None]":
        if self._asked.detach:
            yield None
            return
        from arco.cli.flow.crew import make_crew

        asked = self._asked
        crew = make_crew(asked.loaded, asked.modules, arco, asked.spark, self._runtime)
        in_thread = self._runtime.tasks.in_thread
        try:
            await in_thread(lambda: crew.warm_up(plan, report.say))
            with own_stdout():  # to the end: code that does not stop may print for as long
                yield crew
        finally:
            await in_thread(crew.close)


def _whoever() -> str | None:
    """The person at this machine, if it can be told."""
    try:
        return f"user:{getpass.getuser()}"
    except (OSError, KeyError):
        return None
