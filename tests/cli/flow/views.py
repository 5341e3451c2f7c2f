"""Plans and views of runs, as the book of runs would tell them."""

from arco.flow.coordinator.messages import CheckOutcome, RunStatus, RunView, TaskStatus, TaskView
from arco.flow.plan.keys import read_key
from arco.flow.plan.plan import Maker, Plan, PlannedTask, PlanTarget, Reason

RUN = "01M7GVFS186HGNANJXDTGV0000"


def planned(*keys: str, reason: Reason = Reason.MISSING) -> Plan:
    """A plan of these tasks, each of an asset that writes the table of its name."""
    tasks = []
    for key in keys:
        maker, partition = read_key(key)
        tasks.append(PlannedTask(key=key, maker=maker, partition=partition, reason=reason))
    makers = [
        Maker(
            name=name,
            kind="asset",
            targets=(PlanTarget(table=name, format="iceberg", mode="replace_partition"),),
        )
        for name in sorted({task.maker for task in tasks})
    ]
    return Plan(
        project="shop",
        selection="",
        now_ms=0,
        state_number=0,
        makers=tuple(makers),
        tasks=tuple(tasks),
    )


def seen(
    *tasks: TaskView, status: RunStatus = RunStatus.RUNNING, number: int = 1, error: str = ""
) -> RunView:
    """A run with these tasks."""
    return RunView(
        run_id=RUN,
        status=status,
        plan_id="",
        number=number,
        counts={},
        changed=tasks,
        requested_at_ms=0,
        completed_at_ms=None if status is RunStatus.RUNNING else 12_000,
        error=error or None,
    )


def check(
    name: str, *, passed: bool = True, severity: str = "error", message: str = ""
) -> CheckOutcome:
    """What a check found."""
    return CheckOutcome(
        table="default.silver.orders",
        table_id=None,
        name=name,
        type="NULL_CHECK",
        severity=severity,
        passed=passed,
        expected="0",
        actual="0" if passed else "7",
        message=message,
    )


def done(key: str, *checks: CheckOutcome, rows: int = 10) -> TaskView:
    """A task that went well."""
    return TaskView(
        key=key,
        status=TaskStatus.SUCCESS,
        attempt=1,
        started_at_ms=1_000,
        completed_at_ms=2_500,
        rows_written=rows,
        checks=checks,
    )
