"""Plans for tests: makers and tasks without code."""

from collections.abc import Mapping, Sequence

from arco.flow.coordinator.messages import ANY_WORKER, RunRequest
from arco.flow.plan.plan import (
    Maker,
    Plan,
    PlannedTask,
    PlanTarget,
    ReadPartitions,
    Reason,
    RetryPolicy,
)

PROJECT = "shop"


def maker(name: str = "work", *, pool: str = "default", retry: RetryPolicy | None = None) -> Maker:
    return Maker(name=name, kind="task", pool=pool, retry=retry or RetryPolicy())


def asset(
    table: str,
    *,
    retry: RetryPolicy | None = None,
    alone: bool = False,
    mode: str = "replace_partition",
    also: Sequence[str] = (),
    code: str | None = None,
) -> Maker:
    targets = tuple(
        PlanTarget(table=each, format="parquet", mode=mode, alone=alone) for each in (table, *also)
    )
    return Maker(
        name=table,
        kind="asset",
        targets=targets,
        retry=retry or RetryPolicy(),
        code_fingerprint=code,
    )


def task(
    key: str, *deps: str, maker: str = "work", partition: str = "", inputs: tuple[int, ...] = ()
) -> PlannedTask:
    return PlannedTask(
        key=key, maker=maker, partition=partition, reason=Reason.MISSING, deps=deps, inputs=inputs
    )


def plan(
    *tasks: PlannedTask,
    makers: Sequence[Maker] = (),
    reads: Sequence[ReadPartitions] = (),
    pools: Mapping[str, int] | None = None,
) -> Plan:
    return Plan(
        project=PROJECT,
        selection="",
        now_ms=1_800_000_000_000,
        state_number=0,
        makers=tuple(makers) or (maker(),),
        reads=tuple(reads),
        tasks=tasks,
        pools=dict(pools or {}),
    )


def run_request(plan: Plan, key: str = "key", worker: str = ANY_WORKER) -> RunRequest:
    return RunRequest(run_key=key, plan=plan, worker=worker)


def chain(count: int) -> Plan:
    return plan(*(task(f"t{n}", *([f"t{n - 1}"] if n else [])) for n in range(count)))


def fan(count: int) -> Plan:
    return plan(task("root"), *(task(f"t{n}", "root") for n in range(count - 1)))


def diamond(count: int) -> Plan:
    middle = [f"t{n}" for n in range(count - 2)]
    return plan(task("root"), *(task(each, "root") for each in middle), task("end", *middle))
