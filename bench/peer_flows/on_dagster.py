"""`on_dagster.py SHAPE TASKS`: run tasks that do nothing in this process, and print milliseconds a task.

Once with Dagster's state in memory, once in its own SQLite files, which is what keeps the past.
"""

import json
import sys
import tempfile
import time

from dagster import (
    DagsterInstance,
    DependencyDefinition,
    GraphDefinition,
    In,
    JobDefinition,
    MultiDependencyDefinition,
    NodeInvocation,
    Nothing,
    Out,
    in_process_executor,
    op,
)


@op(out=Out(Nothing))
def first() -> None:
    """The task that waits for none."""


@op(ins={"after": In(Nothing)}, out=Out(Nothing))
def later() -> None:
    """A task that waits for others."""


def waits_for(shape: str, number: int, tasks: int) -> list[int]:
    """The tasks that a task waits for."""
    if shape == "chain":
        return [number - 1]
    if shape == "fan" or number < tasks - 1:
        return [0]
    return list(range(1, tasks - 1))


def job(shape: str, tasks: int) -> JobDefinition:
    """So many tasks in this shape."""
    nodes = {NodeInvocation("first", alias="t0"): {}}
    for number in range(1, tasks):
        before = [DependencyDefinition(f"t{each}") for each in waits_for(shape, number, tasks)]
        nodes[NodeInvocation("later", alias=f"t{number}")] = {
            "after": MultiDependencyDefinition(before)
        }
    graph = GraphDefinition(name="nothing", node_defs=[first, later], dependencies=nodes)
    return graph.to_job(executor_def=in_process_executor)


def task_ms(shape: str, tasks: int, instance: DagsterInstance) -> float:
    """Milliseconds for each task."""
    made = job(shape, tasks)
    began = time.perf_counter()
    if not made.execute_in_process(instance=instance).success:
        sys.exit("Dagster did not carry the tasks out")
    return 1000 * (time.perf_counter() - began) / tasks


if __name__ == "__main__":
    shape, tasks = sys.argv[1], int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        print(
            json.dumps(
                {
                    "Dagster, in memory": task_ms(shape, tasks, DagsterInstance.ephemeral()),
                    "Dagster, SQLite": task_ms(shape, tasks, DagsterInstance.local_temp(folder)),
                }
            )
        )
