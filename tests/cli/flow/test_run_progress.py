"""What is said while a run goes on, on a terminal and elsewhere."""

import io

import msgspec
from rich.console import Console

from arco.cli.flow.run_progress import ProgressLines, RunProgress
from arco.cli.flow.run_screen import ProgressScreen
from arco.flow.coordinator.messages import Progress, RunStatus, TaskStatus, TaskView
from tests.cli.flow.views import check, done, planned, seen

ORDERS = "silver.orders@ds=2026-01-05"
SPEND = "gold.spend@ds=2026-01-05"


def lines(*views: tuple[TaskView, ...]) -> list[str]:
    printed: list[str] = []
    shown = ProgressLines(RunProgress(planned(ORDERS, SPEND)), printed.append)
    for number, tasks in enumerate(views, 1):
        shown.update(seen(*tasks, number=number))
    return printed


def running(key: str, attempt: int = 1, phase: str = "") -> TaskView:
    progress = Progress(phase=phase) if phase else None
    return TaskView(
        key=key,
        status=TaskStatus.RUNNING,
        attempt=attempt,
        started_at_ms=1_000,
        progress=progress,
    )


def test_a_task_that_succeeds_is_reported_twice() -> None:
    printed = lines(
        (running(ORDERS),),
        (running(ORDERS, phase="writing"),),
        (done(ORDERS, check("a"), check("b"), rows=1_412),),
    )

    assert printed == [
        f"start     {ORDERS}  missing",
        f"done      {ORDERS}  1,412 rows, 2 checks passed, 1.5s",
    ]


def test_a_partition_does_not_speak_to_the_terminal() -> None:
    loud = "silver.orders@customer=\x1b[2Jgone"
    printed: list[str] = []
    shown = ProgressLines(RunProgress(planned(loud)), printed.append)
    shown.update(seen(running(loud)))
    shown.update(seen(done(loud), number=2))
    assert printed == [
        "start     silver.orders@customer=\\x1b[2Jgone  missing",
        "done      silver.orders@customer=\\x1b[2Jgone  10 rows, 1.5s",
    ]


def test_dispatched_and_running_are_one_start() -> None:
    dispatched = TaskView(key=ORDERS, status=TaskStatus.DISPATCHED, attempt=1)

    assert lines((dispatched,), (running(ORDERS),)) == [f"start     {ORDERS}  missing"]


def test_another_attempt_is_another_start() -> None:
    retry_wait = TaskView(
        key=ORDERS, status=TaskStatus.RETRY_WAIT, attempt=1, error="\nValueError: x\n  at y"
    )

    assert lines((running(ORDERS),), (retry_wait,), (running(ORDERS, attempt=2),)) == [
        f"start     {ORDERS}  missing",
        f"again     {ORDERS}  ValueError: x",
        f"start     {ORDERS}  attempt 2",
    ]


def test_a_check_that_failed_is_named_with_what_it_found() -> None:
    blocked = TaskView(
        key=ORDERS,
        status=TaskStatus.BLOCKED,
        attempt=1,
        checks=(check("ok"), check("has_key", passed=False)),
    )
    held_back = TaskView(key=SPEND, status=TaskStatus.BLOCKED)

    assert lines((blocked, held_back)) == [
        f"BLOCKED   {ORDERS}  nothing was published: a check failed",
        "            has_key: expected 0, found 7",
        f"BLOCKED   {SPEND}  a check of what it reads failed",
    ]


def test_a_warning_is_reported_for_a_task_that_succeeded() -> None:
    warned = done(ORDERS, check("few_late", passed=False, severity="warn"))

    assert lines((warned,)) == [
        f"done      {ORDERS}  10 rows, 0 of 1 check passed, 1.5s",
        "warning     few_late: expected 0, found 7",
    ]


def test_words_of_others_do_not_speak_to_the_terminal() -> None:
    failed = TaskView(key=ORDERS, status=TaskStatus.FAILED, attempt=1, error="\x1b[2Jgone")

    assert lines((failed,)) == [f"FAILED    {ORDERS}  \\x1b[2Jgone"]


def test_a_terminal_shows_what_is_in_work_and_how_far_it_is() -> None:
    board, out = RunProgress(planned(ORDERS, SPEND)), io.StringIO()
    console = Console(file=out, force_terminal=True, width=120, color_system=None)
    screen = ProgressScreen(board, console, lambda: 4_000.0)
    with screen:
        screen.update(seen(running(ORDERS)))
        board.local[ORDERS] = Progress(phase="writing", done=0.5, rows=1_200)
        screen._live.refresh()

    drawn = out.getvalue()
    assert "0 of 2" in drawn
    assert "1 running" in drawn
    assert f"{ORDERS}" in drawn
    assert "writing" in drawn
    assert "1,200 rows" in drawn
    assert "3.0s" in drawn


def test_a_terminal_says_above_the_bars_what_did_not_go_well_and_nothing_else() -> None:
    board, out = RunProgress(planned(ORDERS, SPEND)), io.StringIO()
    console = Console(file=out, force_terminal=True, width=120, color_system=None)
    failed = TaskView(key=SPEND, status=TaskStatus.FAILED, attempt=1, error="ValueError: x")
    with ProgressScreen(board, console, lambda: 0.0) as screen:
        screen.update(seen(done(ORDERS), failed, status=RunStatus.FAILED))

    assert f"FAILED    {SPEND}  ValueError: x" in out.getvalue()
    assert f"done      {ORDERS}" not in out.getvalue()
    assert board.is_over


def test_a_note_is_printed_at_the_end_and_is_no_warning() -> None:
    noted = TaskView(key=ORDERS, status=TaskStatus.SUCCESS, note="its rows are there")
    assert lines((noted,)) == [f"done      {ORDERS}  its rows are there"]


def test_another_attempt_says_why_the_one_before_failed() -> None:
    retried = msgspec.structs.replace(running(ORDERS, 2), previous_error="ValueError: x\nin a.py:3")
    assert lines((running(ORDERS),), (retried,))[-1] == (
        f"start     {ORDERS}  attempt 2; attempt 1 failed: ValueError: x"
    )


def test_a_terminal_prints_why_a_task_that_starts_again_at_once_had_failed() -> None:
    progress, out = RunProgress(planned(ORDERS)), io.StringIO()
    console = Console(file=out, force_terminal=True, width=120, color_system=None)
    retried = msgspec.structs.replace(running(ORDERS, 2), previous_error="ValueError: x")
    with ProgressScreen(progress, console, lambda: 0.0) as screen:
        screen.update(seen(running(ORDERS)))
        screen.update(seen(retried))

    assert f"start     {ORDERS}  attempt 2; attempt 1 failed: ValueError: x" in out.getvalue()
    assert f"start     {ORDERS}  missing" not in out.getvalue()
