"""What `arco run` says before, during and after a run; one document at the end for programs."""

from arco.cli.flow.screen.board import Board
from arco.cli.flow.screen.document import run_document
from arco.cli.flow.screen.plan_view import blocked_lines, headline, waiting_lines
from arco.cli.flow.screen.summary import HEADINGS, Ending
from arco.cli.output import print_document
from arco.cli.rendering import one_line, print_rows
from arco.flow.run.wire import RunView


class Report:
    """The words about one run."""

    def __init__(self, board: Board, reach: str, project: str = "", *, as_json: bool) -> None:
        self.board = board
        self._reach = reach
        self._project = project
        self._as_json = as_json

    def say(self, line: str) -> None:
        """A line for people, at once."""
        if not self._as_json:
            print(line, flush=True)

    def planned(self) -> None:
        """The plan in short: what, how much, and why."""
        if self._as_json:
            return
        from arco.cli.flow.plan import print_plan

        plan = self.board.plan
        if plan.tasks:
            print_plan(plan)
            print(flush=True)
            return
        for line in (*waiting_lines(plan), *blocked_lines(plan), headline(plan)):
            print(one_line(line))

    def handed_over(self, begun: RunView) -> int:
        """The run is left to workers; the exit code says whether all that was asked for is in it."""
        plan = self.board.plan
        left_out = len(plan.waiting) + len(plan.blocked)
        code = 1 if left_out else 0
        if self._as_json:
            self.board.take(begun)
            print_document(run_document(self.board))
            return code
        flags = f" {self._reach}" if self._reach else ""
        own = f" {self._project}{flags}" if self._project else flags
        print(f"Run {begun.run_id} waits for workers. `arco worker{own}` starts one,", end=" ")
        print(f"`arco runs {begun.run_id}{flags}` shows how it stands.")
        if left_out:
            print(
                f"{left_out:,} of what was asked for cannot be made, and is not part of this run."
            )
        return code

    def ended(self) -> int:
        """The exit code, once all was said."""
        ending = Ending(self.board)
        if self._as_json:
            print_document(run_document(self.board))
        elif self.board.run is not None:
            self._tell(ending)
        return 0 if ending.is_good else 1

    def _tell(self, ending: Ending) -> None:
        print()
        if rows := ending.rows():
            print_rows(HEADINGS, rows)
            print()
        for line in ending.failures():
            print(line)
        for line in (*waiting_lines(self.board.plan), *blocked_lines(self.board.plan)):
            print(one_line(line))
        print(ending.headline())
        print("\nNext:")
        steps = ending.next_steps(self._reach, self._project)
        width = max(len(command) for command, _ in steps)
        for command, what in steps:
            print(f"  {command:<{width}}   {what}")
