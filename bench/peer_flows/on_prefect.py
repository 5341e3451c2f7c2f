"""`on_prefect.py SHAPE TASKS`: run tasks that do nothing in this process, and print milliseconds a task.

A chain calls them one after the other; the other shapes submit all at once. The start of Prefect's own
server is not counted.
"""

import json
import os
import sys
import tempfile
import time

# Prefect reads its settings when it is imported.
os.environ["PREFECT_HOME"] = tempfile.mkdtemp()
os.environ["PREFECT_LOGGING_LEVEL"] = "ERROR"
os.environ["PREFECT_SERVER_ANALYTICS_ENABLED"] = "false"

from prefect import flow, task


@task
def nothing() -> None:
    """A task that does nothing."""


@flow
def tasks_in(shape: str, tasks: int) -> float:
    """Seconds for so many tasks, measured inside the flow."""
    began = time.perf_counter()
    if shape == "chain":
        for _ in range(tasks):
            nothing()
    else:
        first = nothing.submit()
        middle = [nothing.submit(wait_for=[first]) for _ in range(tasks - 2)]
        nothing.submit(wait_for=middle if shape == "diamond" else [first]).wait()
        for each in middle:
            each.wait()
    return time.perf_counter() - began


if __name__ == "__main__":
    shape, tasks = sys.argv[1], int(sys.argv[2])
    print(json.dumps({"Prefect": 1000 * tasks_in(shape, tasks) / tasks}))
