"""Stories: what happens to an execution, its tasks and their partitions, told in the order of causes."""

from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

from tests.differential.words import KEYS, TABLES, TASKS, VALUES


class Step(NamedTuple):
    """Something that happened so many seconds after the story began."""

    name: str
    payload: dict[str, Any]
    second: float


class Story:
    """One execution, from the wish for it to some end, or to none."""

    def __init__(self, rng: Random, execution_id: str) -> None:
        self._rng = rng
        self._execution = {"execution_id": execution_id}
        self._second = rng.randrange(60)
        self._places = {task: self._place() for task in TASKS}

    def steps(self) -> Iterator[Step]:
        rng = self._rng
        if rng.random() < 0.5:
            yield self._step("execution_requested", run_key="key", trigger_type="MANUAL")
        if rng.random() < 0.5:
            tasks = [{"task_id": task, **self._places[task]} for task in TASKS]
            yield self._step("execution_planned", plan_id="plan", tasks=tasks)
        yield self._step("execution_started", pipeline_id=rng.choice(("daily", "hourly")))
        for task in rng.sample(TASKS, rng.randint(1, len(TASKS))):
            yield from self._task(task)
        if rng.random() < 0.3:
            yield self._step("cancel_requested", reason="enough")
        if rng.random() < 0.7:
            status = rng.choice(("SUCCESS", "FAILED", "CANCELLED"))
            yield self._step("execution_completed", status=status, duration_ms=rng.randrange(9))

    def _task(self, task: str) -> Iterator[Step]:
        rng = self._rng
        attempts = rng.randint(1, 3)
        for attempt in range(1, attempts + 1):
            named = {"task_id": task, "attempt": attempt, **self._places[task]}
            if rng.random() < 0.4:
                yield self._step("task_dispatched", **named)
            yield self._step("task_started", **named, worker=f"w{attempt}")
            if rng.random() < 0.2:
                yield self._step("task_cancelled", **named, reason="stop")
            if attempt < attempts:
                yield from self._failure(named)
            elif rng.random() < 0.8:
                yield from self._success(named)

    def _failure(self, named: dict[str, Any]) -> Iterator[Step]:
        if self._rng.random() < 0.5:
            yield self._step("task_lost", **named, reason="lease_expired")
        else:
            yield self._step("task_completed", **named, status="FAILED", error_message="no")
        if self._rng.random() < 0.5:
            again = {**named, "attempt": named["attempt"] + 1}
            yield self._step("task_retry_scheduled", **again, reason="try again")

    def _success(self, named: dict[str, Any]) -> Iterator[Step]:
        rng = self._rng
        version = {"published_version": rng.randrange(3)} if rng.random() < 0.5 else {}
        figures = {"rows_written": rng.randrange(9), "output_tables": ["tbl-a"]}
        yield self._step("task_completed", **named, **version, **figures, status="SUCCESS")
        if "table_id" in named:
            place = {name: named[name] for name in named if name.startswith(("table", "partition"))}
            figures = {"row_count": rng.randrange(9), "version": rng.randrange(3)}
            yield self._step("partition_completed", **place, **figures)

    def _place(self) -> dict[str, Any]:
        rng = self._rng
        named: dict[str, Any] = {"table_id": rng.choice(TABLES)}
        draw = rng.random()
        if draw < 0.5:
            return named | {"partition_values": rng.choice(VALUES)}
        return named | {"partition_key": rng.choice(KEYS)} if draw < 0.8 else {}

    def _step(self, name: str, **payload: Any) -> Step:
        self._second += self._rng.randrange(4)  # often at the same moment as what was before
        return Step(name, {**self._execution, **payload}, self._second)
