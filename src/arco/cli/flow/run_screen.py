"""The progress of a run on a terminal: tasks by status, the running ones with their progress, problems."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from arco.cli.flow.run_progress import RunProgress, TaskChange, change_lines
from arco.cli.flow.text_format import format_duration, format_number, shorten
from arco.cli.rendering import one_line
from arco.flow.coordinator.messages import Progress, RunView, TaskStatus, TaskView
from arco.flow.coordinator.run_state import ACTIVE_STATUSES

if TYPE_CHECKING:
    from rich.console import RenderableType

STYLES = {
    TaskStatus.SUCCESS: "green",
    TaskStatus.FAILED: "bold red",
    TaskStatus.BLOCKED: "magenta",
    TaskStatus.RUNNING: "cyan",
    TaskStatus.DISPATCHED: "cyan",
    TaskStatus.RETRY_WAIT: "yellow",
    TaskStatus.CANCELLED: "yellow",
}
_BAR = 24
_MAX_RUNNING = 12


class ProgressScreen:
    """Draws the progress a few times a second, and prints problems above it."""

    def __init__(
        self, progress: RunProgress, console: Console, now_ms: Callable[[], float]
    ) -> None:
        self._progress = progress
        self._console = console
        self._now_ms = now_ms
        self._began_ms = now_ms()
        self._live = Live(
            get_renderable=self._draw, console=console, transient=True, refresh_per_second=5
        )

    def update(self, view: RunView) -> None:
        """Apply changes: what ended well is only counted, the rest is printed."""
        for change in self._progress.update(view):
            for line in change_lines(change) if _is_printed(change) else ():
                self._live.console.print(Text(line, style=STYLES.get(change.after.status, "dim")))

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_failure: object) -> None:
        self._live.stop()

    def _draw(self) -> "RenderableType":
        running = self._progress.running()
        parts: list[RenderableType] = [self._head()]
        if running:
            parts.append(self._table(running[:_MAX_RUNNING]))
        if len(running) > _MAX_RUNNING:
            parts.append(Text(f"  and {len(running) - _MAX_RUNNING} more in work", style="dim"))
        return Group(*parts)

    def _head(self) -> "RenderableType":
        done, total = self._progress.ended(), len(self._progress.plan.tasks)
        words = Text(f" {done} of {total}  ")
        for status, count in self._progress.counts().items():
            words.append(f"{count} {status.lower()}  ", STYLES.get(status, "dim"))
        words.append(format_duration(self._now_ms() - self._began_ms), "dim")
        head = Table.grid(padding=(0, 1))
        head.add_row(ProgressBar(total=max(total, 1), completed=done, width=_BAR), words)
        return head

    def _table(self, running: list[TaskView]) -> Table:
        table = Table.grid(padding=(0, 2))
        for view in running:
            progress = self._progress.progress(view) or Progress(phase="starting")
            began = view.started_at_ms
            table.add_row(
                Text(f"  {shorten(one_line(view.key), 60)}"),
                Text(progress.phase or "working", style="cyan"),
                _bar(progress.done),
                Text(_rows(progress.rows), style="dim"),
                Text(shorten(one_line(progress.message), 40), style="dim"),
                Text(
                    "" if began is None else format_duration(max(0, self._now_ms() - began)),
                    style="dim",
                ),
            )
        return table


def _bar(done: float | None) -> "RenderableType":
    return "" if done is None else ProgressBar(total=1.0, completed=done, width=_BAR // 2)


def _rows(rows: int | None) -> str:
    return "" if rows is None else f"{format_number(rows)} rows"


def _is_printed(change: TaskChange) -> bool:
    """Whether a change is a problem. A retry that starts at once is one: its line names the failure."""
    before, after = change.before, change.after
    if after.status in ACTIVE_STATUSES:
        was_waiting = before is not None and before.status is TaskStatus.RETRY_WAIT
        return after.attempt > 1 and not was_waiting
    fails_a_check = any(not each.passed for each in after.checks)
    return after.status is not TaskStatus.SUCCESS or bool(after.warnings) or fails_a_check
