"""The end of a run, for people and for programs."""

import shlex
from typing import Any

import msgspec
import pytest

from arco.cli.flow.plan_rendering import blocked_lines, headline
from arco.cli.flow.run_progress import RunProgress
from arco.cli.flow.run_session import RunReport
from arco.cli.flow.run_summary import RunSummary, run_document
from arco.cli.flow.runs import print_run
from arco.core import json
from arco.flow.coordinator.messages import (
    CodeVersion,
    CodeWait,
    RunStatus,
    TaskStatus,
    TaskView,
    WorkerCode,
)
from arco.flow.plan.plan import BlockedPartition, Plan, WaitingPartition
from tests.cli.flow.views import RUN, check, done, planned, seen

ORDERS = [f"silver.orders@ds=2026-01-{day:02}" for day in (1, 2, 3)]
ODD = "silver.orders@customer=x'; rm -rf ~; ' y"
LOUD = "silver.orders@customer=\x1b[2Jgone\n"
SPEND = [f"gold.spend@ds=2026-01-{day:02}" for day in (1, 2, 3)]


def ended(
    *tasks: TaskView,
    status: RunStatus = RunStatus.SUCCESS,
    plan: Plan | None = None,
) -> RunSummary:
    board = RunProgress(plan or planned(*ORDERS, *SPEND))
    board.update(seen(*tasks, status=status))
    return RunSummary(board)


def failed(key: str, error: str) -> TaskView:
    return TaskView(key=key, status=TaskStatus.FAILED, attempt=2, error=error)


def test_a_line_an_asset_says_what_was_written() -> None:
    tasks = [done(key, check("a"), rows=500) for key in ORDERS]
    tasks.append(done(SPEND[1], check("b"), check("c", passed=False, severity="warn"), rows=4))

    assert ended(*tasks).rows() == [
        ("silver.orders", "ds=2026-01-01..2026-01-03 (3)", "1,500", "3 passed", "4.5s"),
        ("gold.spend", "ds=2026-01-02", "4", "1 passed, 1 warned", "1.5s"),
    ]


def test_a_failure_shows_the_error_and_what_was_not_made_because_of_it() -> None:
    ending = ended(
        failed(
            ORDERS[0], 'pipelines/shop.py:9 in orders\n    raise ValueError("x")\nValueError: x'
        ),
        TaskView(key=SPEND[0], status=TaskStatus.SKIPPED),
        status=RunStatus.FAILED,
    )

    assert list(ending.failures()) == [
        f"{ORDERS[0]} failed, attempt 2",
        "    pipelines/shop.py:9 in orders",
        '        raise ValueError("x")',
        "    ValueError: x",
        "gold.spend ds=2026-01-01: skipped, as what it reads was not made",
    ]
    assert not ending.is_good
    assert (f"arco logs {RUN} {ORDERS[0]}", "the log of the task") in ending.next_steps("")


def test_a_check_that_blocks_is_reported_with_the_tasks_it_blocks() -> None:
    blocked = TaskView(
        key=ORDERS[1],
        status=TaskStatus.BLOCKED,
        attempt=1,
        checks=(check("has_key", passed=False),),
    )
    ending = ended(
        blocked,
        TaskView(key=SPEND[1], status=TaskStatus.BLOCKED),
        TaskView(key=SPEND[2], status=TaskStatus.BLOCKED),
        status=RunStatus.FAILED,
    )

    assert list(ending.failures()) == [
        f"{ORDERS[1]} blocked",
        "    nothing was published: its readers keep what was there before",
        "    error: has_key: expected 0, found 7",
        "gold.spend ds=2026-01-02..2026-01-03 (2): blocked, as a check of what it reads failed",
    ]


def test_a_long_error_is_cut_in_the_middle() -> None:
    error = "\n".join(f"line {number}" for number in range(100))
    failures = list(ended(failed(ORDERS[0], error)).failures())

    assert len(failures) == 16
    assert failures[1] == "    line 0"
    assert failures[7] == "    ... 86 more lines, see --json ..."
    assert failures[-1] == "    line 99"


def test_many_failures_are_counted() -> None:
    keys = [f"silver.orders@ds=2026-02-{day:02}" for day in range(1, 12)]
    tasks = [failed(key, "x") for key in keys]

    failures = list(ended(*tasks, plan=planned(*keys)).failures())
    assert [line for line in failures if not line.startswith(" ")] == [
        "silver.orders@ds=2026-02-01 failed, attempt 2",
        "silver.orders@ds=2026-02-02 failed, attempt 2",
        "silver.orders ds=2026-02-03..2026-02-11 (9): failed as well: x",
    ]


def test_each_failure_names_the_line_of_the_users_code() -> None:
    keys = [f"silver.orders@ds=2026-02-{day:02}" for day in range(1, 29)]
    keys += [f"silver.orders@ds=2026-03-{day:02}" for day in range(1, 32)]
    frame = (
        "in your code, the innermost line last:\n  pipelines/a.py:3 in top\n  lib/b.py:{} in deep"
    )
    tasks = [failed(key, f"ValueError: {n}\n{frame.format(n)}") for n, key in enumerate(keys)]

    failures = list(ended(*tasks, plan=planned(*keys)).failures())
    assert ("silver.orders ds=2026-02-03: failed as well: ValueError: 2 (lib/b.py:2)") in failures
    assert sum("failed as well" in line for line in failures) == 30
    assert failures[-1] == f"and 27 tasks more: `arco runs {RUN} --status failed,blocked`"


def test_failures_stand_before_what_checks_have_stopped_and_none_is_hidden() -> None:
    wrong = (check("has_key", passed=False),)
    blocked = [TaskView(key=key, status=TaskStatus.BLOCKED, checks=wrong) for key in ORDERS]
    others = [f"gold.t{number}" for number in range(5)]
    ending = ended(
        *blocked,
        *(failed(key, "x") for key in (SPEND[0], *others)),
        plan=planned(*ORDERS, *SPEND, *others),
    )

    assert [line for line in ending.failures() if not line.startswith(" ")] == [
        f"{SPEND[0]} failed, attempt 2",
        *(f"{key} failed, attempt 2" for key in others[:4]),
        "gold.t4: failed as well: x",
        "silver.orders ds=2026-01-01..2026-01-03 (3): blocked as well: has_key: expected 0, found 7",
    ]


def test_next_steps_ask_for_partitions_only_where_there_are_some() -> None:
    plan = planned(ORDERS[0], "gold.total")
    both = ended(done(ORDERS[0]), done("gold.total"), plan=plan)
    assert [command for command, _ in both.next_steps("")][1:] == [
        "arco lineage gold.total --columns",
        "arco partitions silver.orders",
    ]
    one = ended(done("gold.total"), plan=plan)
    assert [command for command, _ in one.next_steps("")][1:] == [
        "arco lineage gold.total --columns"
    ]


def test_the_headline_says_how_it_ended() -> None:
    ending = ended(*(done(key) for key in (*ORDERS, *SPEND)))

    assert ending.headline() == f"Run {RUN}: success in 12s, 6 success"


def test_next_steps_reach_the_same_arco() -> None:
    steps = ended(done(ORDERS[0])).next_steps("--url http://host:9")

    assert all(command.endswith("--url http://host:9") for command, _ in steps)


def test_next_steps_that_load_the_project_name_it() -> None:
    ending = ended(done(ORDERS[0]), failed(ORDERS[1], "x"), status=RunStatus.FAILED)

    assert [command for command, _ in ending.next_steps("--root /r", "--project a/b")] == [
        f"arco runs {RUN} --root /r",
        f"arco logs {RUN} {ORDERS[1]} --root /r",
        f"arco retry {RUN} --project a/b --root /r",
        "arco lineage silver.orders --columns --root /r",
        "arco partitions silver.orders --project a/b --root /r",
    ]


def test_next_steps_name_the_first_failure_and_no_table_that_was_not_written() -> None:
    ending = ended(failed(ORDERS[1], "y"), failed(ORDERS[0], "x"), status=RunStatus.FAILED)

    assert next(ending.failures()).startswith(ORDERS[0])
    assert [command for command, _ in ending.next_steps("")] == [
        f"arco runs {RUN}",
        f"arco logs {RUN} {ORDERS[0]}",
        f"arco retry {RUN}",
    ]


def test_a_command_is_one_for_the_shell_whatever_a_partition_is_called(
    capsys: pytest.CaptureFixture[str],
) -> None:
    view = failed(ODD, "x")
    steps = dict(ended(view, status=RunStatus.FAILED, plan=planned(ODD)).next_steps("--root /r"))
    [command] = [each for each, what in steps.items() if what == "the log of the task"]
    assert shlex.split(command) == ["arco", "logs", RUN, ODD, "--root", "/r"]

    print_run(seen(view, status=RunStatus.FAILED), "--root /r")
    last_line = capsys.readouterr().out.splitlines()[-1]
    assert last_line == f"`{command}` shows more."


def test_a_partition_does_not_speak_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    ending = ended(failed(LOUD, "x"), status=RunStatus.FAILED, plan=planned(LOUD))
    lines = [*ending.failures(), *(step for step, _ in ending.next_steps(""))]
    written = ended(done(ODD), plan=planned(ODD)).rows()[0]
    held = TaskView(key=LOUD, status=TaskStatus.SKIPPED)
    lines += [*written, *ended(held, plan=planned(LOUD)).failures()]
    print_run(seen(failed(LOUD, "x"), status=RunStatus.FAILED), "")
    assert all(line.isprintable() for line in (*lines, *capsys.readouterr().out.splitlines()))


def test_a_run_that_was_cancelled_can_be_continued() -> None:
    steps = [step for step, _ in ended(status=RunStatus.CANCELLED).next_steps("")]
    assert steps == [f"arco runs {RUN}", f"arco retry {RUN}"]


def test_warnings_of_many_partitions_take_a_line_a_check() -> None:
    late = check("late", passed=False, severity="warn")
    few = [check("few", passed=False, severity="warn", message=text) for text in ("3", "4")]
    ending = ended(
        done(ORDERS[0], late, few[0]), done(ORDERS[1], late, few[1]), done(SPEND[0], late)
    )

    assert list(ending.failures()) == [
        "silver.orders ds=2026-01-01..2026-01-02 (2): warning: late: expected 0, found 7",
        "silver.orders ds=2026-01-01..2026-01-02 (2): warning: few: 3 ...",
        "gold.spend ds=2026-01-01: warning: late: expected 0, found 7",
    ]


def test_what_cannot_be_made_is_not_all_done() -> None:
    plan = msgspec.structs.replace(
        planned(ORDERS[0]), waiting=(WaitingPartition(key=SPEND[0], lacks=(ORDERS[1],)),)
    )

    ending = ended(done(ORDERS[0]), plan=plan)
    assert not ending.is_good
    assert ending.headline().endswith(
        "; not part of this run: 1 partition that cannot be made yet, see the lines above"
    )
    assert ended(done(ORDERS[0]), plan=planned(ORDERS[0])).is_good


def test_what_a_plan_does_not_make_is_not_all_done_and_shown_with_its_cause() -> None:
    blocked = [
        BlockedPartition(key=key, reason="APPENDED", cause=f"rows of {key} exist", fix="Drop them")
        for key in SPEND
    ]
    plan = msgspec.structs.replace(planned(ORDERS[0]), blocked=(*blocked,))

    ending = ended(done(ORDERS[0]), plan=plan)
    assert not ending.is_good
    only_blocked = msgspec.structs.replace(planned(), blocked=(*blocked,))
    assert run_document(RunProgress(only_blocked))["status"] is None
    [line] = blocked_lines(plan)
    assert line == (
        f"gold.spend ds=2026-01-01..2026-01-03: blocked (APPENDED): rows of {SPEND[0]} exist "
        "(and similar). Drop them"
    )
    assert headline(plan) == "1 task to do of 1 asset, 3 blocked."
    assert ending.headline() == (
        f"Run {RUN}: success in 12s, 1 success; not part of this run: 3 partitions blocked (APPENDED), "
        "see the lines above"
    )
    assert run_document(ending.progress)["blocked"] == [
        {"key": key, "reason": "APPENDED", "cause": f"rows of {key} exist", "fix": "Drop them"}
        for key in SPEND
    ]


def test_the_tasks_of_a_run_are_shown_in_the_order_in_which_they_were_begun(
    capsys: pytest.CaptureFixture[str],
) -> None:
    begun = [
        TaskView(key=key, status=TaskStatus.SUCCESS, started_at_ms=at)
        for key, at in (("c", 3), ("b", 9), ("a", 4))
    ]
    print_run(seen(TaskView(key="d", status=TaskStatus.SKIPPED), *begun), "")

    shown = capsys.readouterr().out.partition("TASK")[2].splitlines()[1:]
    assert [line.split()[0] for line in shown] == ["c", "a", "b", "d"]


def test_what_tasks_were_warned_of_is_below_them(capsys: pytest.CaptureFixture[str]) -> None:
    sly, late = (
        "it reads raw.x without having declared it",
        check("late", passed=False, severity="warn"),
    )
    warned = [
        msgspec.structs.replace(done(key), warnings=(f"check late of {key}: 7", sly))
        for key in (*ORDERS, SPEND[0])
    ]
    print_run(seen(*warned, done(SPEND[1], late)), "")

    shown = capsys.readouterr().out.splitlines()
    assert [line for line in shown if line.startswith("warning")] == [
        f"warning  {ORDERS[0]}, {ORDERS[1]} and 2 more: {sly}",
        *(f"warning  {key}: check late of {key}: 7" for key in (*ORDERS, SPEND[0])),
        f"warning  {SPEND[1]}: late: expected 0, found 7",
    ]


def test_many_warnings_of_a_run_are_printed_in_few_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    warnings = tuple(f"warning {number}" for number in range(30))
    print_run(seen(msgspec.structs.replace(done("a"), warnings=warnings)), "")

    shown = capsys.readouterr().out.splitlines()
    assert shown[-2:] == ["warning  a: warning 9", "and 20 warnings more, which --json lists"]


def test_a_program_gets_all_of_it_as_one_document() -> None:
    board = ended(
        done(ORDERS[0], check("a"), rows=7),
        failed(ORDERS[1], "x"),
        status=RunStatus.FAILED,
    ).progress

    document = json.decode(json.encode(run_document(board)), dict)
    assert (document["run_id"], document["status"]) == (RUN, "FAILED")
    assert document["counts"] == {"SUCCESS": 1, "PENDING": 4, "FAILED": 1}
    first, second, third = document["tasks"][:3]
    assert (first["key"], first["rows"], first["duration_ms"]) == (ORDERS[0], 7, 1_500)
    assert first["checks"][0]["name"] == "a"
    assert (second["status"], second["error"], second["attempt"]) == ("FAILED", "x", 2)
    assert third["status"] == "PENDING"


def test_a_run_that_waits_for_code_shows_both_fingerprints(
    capsys: pytest.CaptureFixture[str],
) -> None:
    wait = CodeWait(
        maker="default.gold.spend",
        tasks=3,
        planned=CodeVersion(code="1" * 64),
        workers=(WorkerCode(worker="host:1", code=CodeVersion(code="2" * 64)),),
    )
    print_run(msgspec.structs.replace(seen(), waits_for_code=(wait,)), "")
    output = capsys.readouterr().out
    assert (
        "3 ready tasks of gold.spend, planned with the code 111111111111: worker host:1" in output
    )
    assert "has the code 222222222222" in output
    assert f"`arco retry {RUN}`" in output


@pytest.mark.parametrize(
    ("left_out", "code"),
    [
        ({}, 0),
        ({"waiting": (WaitingPartition(key="a", lacks=("b",)),)}, 1),
        ({"blocked": (BlockedPartition(key="a", reason="APPENDED", cause="it was"),)}, 1),
    ],
)
def test_a_detached_run_exits_with_1_if_something_cannot_be_made(
    left_out: dict[str, Any], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = msgspec.structs.replace(planned(*ORDERS), **left_out)
    for as_json in (False, True):
        assert RunReport(RunProgress(plan), "", as_json=as_json).print_detached(seen()) == code
    assert ("1 of what was asked for cannot be made" in capsys.readouterr().out) == bool(code)
