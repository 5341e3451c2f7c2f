"""Progress on a terminal: the tasks by status, those in work with how far they are, and what went wrong."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from arco.cli.flow.screen.board import Board
from arco.cli.flow.screen.lines import lines_of
from arco.cli.flow.screen.words import cut, duration, number
from arco.cli.rendering import one_line
from arco.flow.run.task_state import AT_WORK
from arco.flow.run.wire import Progress, RunView, TaskStatus, TaskView

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
_MOST_IN_WORK = 12
_QUIET = AT_WORK | {TaskStatus.SUCCESS}


class Screen:
    """Draws the board anew a few times a second, and says above it what did not go well."""

    def __init__(self, board: Board, console: Console, now_ms: Callable[[], float]) -> None:
        self._board = board
        self._console = console
        self._now_ms = now_ms
        self._began_ms = now_ms()
        self._live = Live(
            get_renderable=self._draw, console=console, transient=True, refresh_per_second=5
        )

    def take(self, view: RunView) -> None:
        """Note what is new; whatever ended well is counted, the rest is said."""
        for step in self._board.take(view):
            told = step.now.status not in _QUIET or step.now.warnings or _warns(step.now)
            for line in lines_of(step) if told else ():
                self._live.console.print(Text(line, style=STYLES.get(step.now.status, "dim")))

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_failure: object) -> None:
        self._live.stop()

    def _draw(self) -> "RenderableType":
        in_work = self._board.in_work()
        parts: list[RenderableType] = [self._head()]
        if in_work:
            parts.append(self._table(in_work[:_MOST_IN_WORK]))
        if len(in_work) > _MOST_IN_WORK:
            parts.append(Text(f"  and {len(in_work) - _MOST_IN_WORK} more in work", style="dim"))
        return Group(*parts)

    def _head(self) -> "RenderableType":
        done, total = self._board.ended(), len(self._board.plan.tasks)
        words = Text(f" {done} of {total}  ")
        for status, count in self._board.counts().items():
            words.append(f"{count} {status.lower()}  ", STYLES.get(status, "dim"))
        words.append(duration(self._now_ms() - self._began_ms), "dim")
        head = Table.grid(padding=(0, 1))
        head.add_row(ProgressBar(total=max(total, 1), completed=done, width=_BAR), words)
        return head

    def _table(self, in_work: list[TaskView]) -> Table:
        table = Table.grid(padding=(0, 2))
        for view in in_work:
            progress = self._board.progress(view) or Progress(phase="starting")
            began = view.started_at_ms
            table.add_row(
                Text(f"  {cut(one_line(view.key), 60)}"),
                Text(progress.phase or "working", style="cyan"),
                _bar(progress.done),
                Text(_rows(progress.rows), style="dim"),
                Text(cut(one_line(progress.message), 40), style="dim"),
                Text(
                    "" if began is None else duration(max(0, self._now_ms() - began)), style="dim"
                ),
            )
        return table


def _bar(done: float | None) -> "RenderableType":
    return "" if done is None else ProgressBar(total=1.0, completed=done, width=_BAR // 2)


def _rows(rows: int | None) -> str:
    return "" if rows is None else f"{number(rows)} rows"


def _warns(view: TaskView) -> bool:
    return any(not each.passed for each in view.checks)
