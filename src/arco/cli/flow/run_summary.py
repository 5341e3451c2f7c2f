"""The end of a run: what was written, what was not and why, and what to look at; or one document."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from shlex import quote

from arco.cli.flow.run_progress import RunProgress, check_line, failed_checks, is_own_block, took_ms
from arco.cli.flow.text_format import (
    count_of,
    first_line,
    format_duration,
    format_number,
    list_some,
    shorten,
)
from arco.cli.rendering import one_line
from arco.flow.coordinator.messages import CheckOutcome, RunStatus, TaskStatus, TaskView
from arco.flow.plan.keys import key_ranges, short_name
from arco.flow.plan.plan import Maker, Plan, PlannedTask, blocked_document

HEADINGS = ("WRITTEN", "PARTITIONS", "ROWS", "CHECKS", "TIME")

_MAX_FAILURES = 5  # that are shown with their errors
_MAX_OF_ONE = 2  # asset, so that it hides no other
_FIRST_LINES = 6  # of one error: what was raised
_LAST_LINES = 8  # of one error: the innermost frames, and what to do
_MAX_OTHERS = 30
_WHY_CHARS = 160
_FRAME = re.compile(r"^ *(\S+\.(?:py|sql):\d+) in ", re.MULTILINE)
_TRACED = re.compile(r'^ *File "([^"]+)", line (\d+)', re.MULTILINE)

TaskViews = Sequence[tuple[PlannedTask, TaskView]]


@dataclass(frozen=True)
class RunSummary:
    """A run that is over."""

    progress: RunProgress

    @property
    def is_good(self) -> bool:
        """Whether all that the request names is made now."""
        run = self.progress.run
        done = run is None or run.status is RunStatus.SUCCESS
        plan = self.progress.plan
        return done and not plan.waiting and not plan.blocked

    def rows(self) -> list[tuple[str, ...]]:
        """A line for each asset or task that has done something."""
        return [row for maker in self._makers() if (row := self._row(maker))]

    def _makers(self) -> list[Maker]:
        """Assets and tasks in the order in which they were made."""
        by_name = {maker.name: maker for maker in self.progress.plan.makers}
        names = dict.fromkeys(task.maker for task in self.progress.plan.tasks)
        return [by_name[name] for name in names if name in by_name]

    def _row(self, maker: Maker) -> tuple[str, ...] | None:
        tasks = list(self.progress.tasks_of(maker.name))
        succeeded = [(task, view) for task, view in tasks if view.status is TaskStatus.SUCCESS]
        if not succeeded:
            return None
        names = [short_name(each.table) for each in maker.targets] or [f"{maker.name} (task)"]
        took = [ms for _, view in succeeded if (ms := took_ms(view)) is not None]
        rows = [view.rows_written for _, view in succeeded if view.rows_written is not None]
        return (
            ", ".join(names),
            _partitions(succeeded),
            format_number(sum(rows)) if rows else "",
            _checks(succeeded),
            format_duration(sum(took)) if took else "",
        )

    def headline(self) -> str:
        """One sentence: how it ended, in how long."""
        run = self.progress.run
        if run is None:
            return ""
        counts = ", ".join(
            f"{n:,} {status.lower()}" for status, n in self.progress.counts().items()
        )
        took = ""
        if run.requested_at_ms is not None and run.completed_at_ms is not None:
            took = f" in {format_duration(run.completed_at_ms - run.requested_at_ms)}"
        tail = f": {first_line(run.error)}" if run.error else ""
        left_out = self._left_out()
        return one_line(f"Run {run.run_id}: {run.status.lower()}{took}, {counts}{tail}{left_out}")

    def _left_out(self) -> str:
        """What the plan has left out, so that a success does not read as if all was made."""
        plan, parts = self.progress.plan, []
        if plan.blocked:
            reasons = ", ".join(dict.fromkeys(each.reason for each in plan.blocked))
            parts.append(f"{count_of(len(plan.blocked), 'partition')} blocked ({reasons})")
        if plan.waiting:
            parts.append(f"{count_of(len(plan.waiting), 'partition')} that cannot be made yet")
        if not parts:
            return ""
        return f"; not part of this run: {' and '.join(parts)}, see the lines above"

    def failures(self) -> Iterator[str]:
        """What went wrong: a few with all of the user's own lines, the others with the innermost.

        Those of an asset that failed alike share a line.
        """
        failed, shown, of_one = self._failed_tasks(), list[TaskView](), Counter[str]()
        for task, view in failed:
            if len(shown) < _MAX_FAILURES and of_one[task.maker] < _MAX_OF_ONE:
                shown.append(view)
                of_one[task.maker] += 1
                yield from _failure(view)
        others = _group_by_reason([(task, view) for task, view in failed if view not in shown])
        for group in others[:_MAX_OTHERS]:
            task, view = group[0]
            name = f"{short_name(task.maker)} {_partitions(group)}".rstrip()
            yield f"{name}: {view.status.lower()} as well: {failure_reason(view)}"
        if hidden := sum(len(group) for group in others[_MAX_OTHERS:]):
            run_id = "RUN" if self.progress.run is None else self.progress.run.run_id
            yield f"and {count_of(hidden, 'task')} more: `arco runs {run_id} --status failed,blocked`"
        yield from self._downstream_lines()
        yield from self._warning_lines()

    def _downstream_lines(self) -> Iterator[str]:
        """The tasks that were not made because of these, in one line per asset."""
        downstream = [
            (task, view)
            for task, view in self._reported_tasks()
            if not _is_blocked_by_own_check(view)
        ]
        blocked, skipped = "a check of what it reads failed", "what it reads was not made"
        yield from _lines_by_asset(downstream, TaskStatus.BLOCKED, f"blocked, as {blocked}")
        yield from _lines_by_asset(downstream, TaskStatus.SKIPPED, f"skipped, as {skipped}")

    def _warning_lines(self) -> Iterator[str]:
        """One line per asset and check that only warned, so that a year of days does not give 365 lines."""
        for maker in self._makers():
            by_check: dict[str, list[tuple[PlannedTask, TaskView, CheckOutcome]]] = {}
            for task, view in self.progress.tasks_of(maker.name):
                for each in failed_checks(view):
                    if each.severity != "error":
                        by_check.setdefault(each.name, []).append((task, view, each))
            for findings in by_check.values():
                messages = dict.fromkeys(check_line(each) for _, _, each in findings)
                which = _partitions([(task, view) for task, view, _ in findings])
                more = " ..." if len(messages) > 1 else ""
                name = f"{short_name(maker.name)} {which}".rstrip()
                yield f"{name}: warning: {next(iter(messages))}{more}"

    def next_steps(self, target: str, project: str = "") -> list[tuple[str, str]]:
        """Commands that work as they are printed, each with what it shows.

        `target` are the flags that find this Arco, `project` those that find the project.
        """
        run = self.progress.run
        if run is None:
            return []
        flags = f" {target}" if target else ""
        both = f" {project}{flags}" if project else flags
        steps = [(f"arco runs {run.run_id}{flags}", "this run with its tasks")]
        failed = self._failed_tasks()
        if failed:
            logs = f"arco logs {run.run_id} {quote(failed[0][1].key)}{flags}"
            steps.append((one_line(logs), "the log of the task"))
        if failed or run.status is RunStatus.CANCELLED:
            steps.append((f"arco retry {run.run_id}{both}", "run the unfinished tasks again"))
        written = [maker for maker in self._makers() if maker.targets and self._row(maker)]
        if written:
            table = _table(written[-1])
            steps.append((f"arco lineage {table} --columns{flags}", "where its columns come from"))
        parted = {task.maker for task in self.progress.plan.tasks if task.partition}
        if of_parts := [maker for maker in written if maker.name in parted]:
            table = _table(of_parts[-1])
            steps.append((f"arco partitions {table}{both}", "which of its partitions are there"))
        return steps

    def _failed_tasks(self) -> TaskViews:
        """The tasks that failed, and then those that were stopped by their own checks."""
        tasks = self._reported_tasks()
        failed = [(task, view) for task, view in tasks if view.status is TaskStatus.FAILED]
        return [*failed, *((task, view) for task, view in tasks if _is_blocked_by_own_check(view))]

    def _reported_tasks(self) -> TaskViews:
        """The tasks whose status was reported, in the order of the plan."""
        views = self.progress.views
        return [(task, views[task.key]) for task in self.progress.plan.tasks if task.key in views]


def _table(maker: Maker) -> str:
    return quote(short_name(maker.targets[0].table))


def _lines_by_asset(tasks: TaskViews, status: TaskStatus, why: str) -> Iterator[str]:
    """The tasks with this status, in one line per asset."""
    by_maker: dict[str, list[tuple[PlannedTask, TaskView]]] = {}
    for task, view in tasks:
        if view.status is status:
            by_maker.setdefault(task.maker, []).append((task, view))
    for maker, group in by_maker.items():
        yield f"{short_name(maker)} {_partitions(group)}".rstrip() + f": {why}"


def _group_by_reason(tasks: TaskViews) -> list[list[tuple[PlannedTask, TaskView]]]:
    """Tasks of the same asset with the same status and reason, together."""
    groups: dict[tuple[str, str, str], list[tuple[PlannedTask, TaskView]]] = {}
    for task, view in tasks:
        groups.setdefault((task.maker, view.status, failure_reason(view)), []).append((task, view))
    return list(groups.values())


def failure_reason(view: TaskView) -> str:
    """Why a task ended badly, in a line: what was raised, and the innermost line of the user's code."""
    if view.status is not TaskStatus.FAILED:
        return "; ".join(check_line(each) for each in failed_checks(view)[:1])
    frame = user_frame(view.error)
    message = shorten(one_line(first_line(view.error)), _WHY_CHARS) or "no reason was reported"
    return message if frame is None or frame in message else f"{message} ({frame})"


def user_frame(error: str | None) -> str | None:
    """The innermost line of the user's code that an error names, as file:line."""
    frames = _FRAME.findall(error or "")
    if frames:
        return str(frames[-1])
    traced = _TRACED.findall(error or "")
    return f"{traced[-1][0]}:{traced[-1][1]}" if traced else None


def _partitions(tasks: TaskViews) -> str:
    keys = [task.partition for task, _ in tasks if task.partition]
    return one_line(list_some(key_ranges(keys), 2)) + (f" ({len(keys):,})" if len(keys) > 1 else "")


def _is_blocked_by_own_check(view: TaskView) -> bool:
    return view.status is TaskStatus.BLOCKED and is_own_block(view)


def _failure(view: TaskView) -> Iterator[str]:
    attempts = f", attempt {view.attempt}" if view.attempt > 1 else ""
    yield f"{one_line(view.key)} {view.status.lower()}{attempts}"
    if view.status is TaskStatus.BLOCKED:
        yield "    nothing was published: its readers keep what was there before"
    for each in failed_checks(view):
        yield f"    {each.severity}: {check_line(each)}"
    if view.status is TaskStatus.FAILED:
        lines = (view.error or "no reason was reported").rstrip().splitlines()
        hidden = len(lines) - _FIRST_LINES - _LAST_LINES
        if hidden > 1:
            lines[_FIRST_LINES:-_LAST_LINES] = [
                f"... {count_of(hidden, 'more line')}, see --json ..."
            ]
        for line in lines:
            yield f"    {one_line(line)}"


def _checks(tasks: TaskViews) -> str:
    tally: Counter[str] = Counter()
    for _, view in tasks:
        for each in view.checks:
            failed = "warned" if each.severity != "error" else "failed"
            tally["passed" if each.passed else failed] += 1
    return ", ".join(
        f"{tally[word]:,} {word}" for word in ("passed", "warned", "failed") if tally[word]
    )


def _status_without_run(plan: Plan) -> RunStatus | None:
    """A plan without tasks is a success, unless something that was asked for cannot be made."""
    return None if plan.blocked or plan.waiting else RunStatus.SUCCESS


def run_document(progress: RunProgress) -> dict[str, object]:
    """A run as one document; a plan without tasks has no run."""
    run, plan = progress.run, progress.plan
    return {
        "run_id": None if run is None else run.run_id,
        "status": _status_without_run(plan) if run is None else run.status,
        "plan_id": plan.plan_id,
        "project": plan.project,
        "requested_at_ms": None if run is None else run.requested_at_ms,
        "completed_at_ms": None if run is None else run.completed_at_ms,
        "error": None if run is None else run.error,
        "counts": {status.value: count for status, count in progress.counts().items()},
        "up_to_date": plan.up_to_date,
        "waiting": waiting_document(plan),
        "blocked": blocked_document(plan),
        "tasks": [_task(progress, task) for task in plan.tasks],
    }


def waiting_document(plan: Plan) -> list[dict[str, object]]:
    """What was asked for and cannot be made."""
    return [{"key": each.key, "lacks": list(each.lacks)} for each in plan.waiting]


def _task(progress: RunProgress, task: PlannedTask) -> dict[str, object]:
    view = progress.views.get(task.key)
    document: dict[str, object] = {
        "key": task.key,
        "asset": short_name(task.maker),
        "partition": task.partition,
        "reason": task.reason,
        "status": TaskStatus.PENDING if view is None else view.status,
    }
    if view is None:
        return document
    return document | {
        "attempt": view.attempt,
        "rows": view.rows_written,
        "started_at_ms": view.started_at_ms,
        "completed_at_ms": view.completed_at_ms,
        "duration_ms": took_ms(view),
        "error": view.error,
        "checks": list(view.checks),
        "warnings": list(view.warnings),
        "note": view.note,
    }
