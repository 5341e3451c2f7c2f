"""A run that this process goes on with."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from arco.core.errors import ArcoError, Invalid
from arco.core.tasks import Event
from arco.flow.plan.keys import LONGEST_KEY
from arco.flow.plan.plan import Maker, Plan
from arco.flow.run.ending import Written
from arco.flow.run.events import LONGEST_LABEL, OfAttempt
from arco.flow.run.locks import Want
from arco.flow.run.materials import Known
from arco.flow.run.plan_store import StoredPlan
from arco.flow.run.queue import ReadyQueue
from arco.flow.run.run_state import RunState
from arco.flow.run.task_state import attempt_ids_of
from arco.flow.run.wire import ANYBODY, CodeWait, RunView


@dataclass
class LiveRun:
    """A run, its tasks, and who waits for news of it."""

    stored: StoredPlan
    state: RunState
    queue: ReadyQueue = field(default_factory=ReadyQueue)
    known: Known | None = None  # of the tables; read when it is first needed
    reserved: set[str] = field(default_factory=set)  # tasks that are being given out right now
    table_ids: dict[str, str] = field(default_factory=dict)
    watchers: set[Event] = field(default_factory=set)
    is_settling: bool = False
    settle_again: bool = False
    trouble: ArcoError | None = None  # why what follows cannot be told now

    @property
    def run_id(self) -> str:
        return self.stored.run_id

    @property
    def plan(self) -> Plan:
        return self.stored.wish.plan

    @cached_property
    def append_again(self) -> frozenset[str]:
        """The tasks that may add rows which were appended before."""
        return frozenset(self.plan.append_again)

    @property
    def worker(self) -> str:
        """Who alone works on it, if that is so."""
        return self.stored.wish.worker

    @property
    def weight(self) -> int:
        """About how much memory it takes: itself, its tasks, and all that its plan names."""
        plan = self.plan
        read = sum(len(each.partitions) for each in plan.reads)
        values = sum(map(len, plan.dynamic.values()))
        return 1 + len(plan.tasks) + len(plan.waiting) + len(plan.blocked) + read + values

    def is_for(self, worker: str, project: str) -> bool:
        """Whether a worker may work on it."""
        return self.plan.project == project and self.worker in (ANYBODY, worker)

    def most(self, pool: str) -> int | None:
        """How many slots a pool has."""
        return self.plan.pools.get(pool)

    def maker(self, key: str) -> Maker:
        return self.state.tasks[key].maker

    def of_attempt(self, key: str, attempt: int) -> OfAttempt:
        """What events say of an attempt at a task."""
        return OfAttempt(self.run_id, key, self.maker(key).name, attempt)

    def attempt_ids(self) -> Iterator[str]:
        """The ids of all attempts that there were."""
        for key, task in self.state.tasks.items():
            yield from attempt_ids_of(self.run_id, key, task.attempt)

    def wants(self, key: str) -> tuple[Want, ...]:
        """What an attempt at a task has to hold."""
        partition = self.state.tasks[key].task.partition
        return tuple(
            Want(target.table, partition, target.alone) for target in self.maker(key).targets
        )

    def written(self, key: str) -> tuple[Written, ...]:
        """What an attempt at a task writes, with the ids of the tables that are known."""
        partition = self.state.tasks[key].task.partition
        return tuple(
            Written(target.table, self.table_ids.get(target.table), partition)
            for target in self.maker(key).targets
        )

    def view(self, since: int, waits_for_code: tuple[CodeWait, ...] = ()) -> RunView:
        """As people see it."""
        state = self.state
        return RunView(
            run_id=self.run_id,
            status=state.status,
            plan_id=self.plan.plan_id,
            number=state.number,
            counts=state.counts(),
            changed=state.changed_since(since),
            waits_for_code=waits_for_code,
            requested_at_ms=self.stored.requested_at_ms,
            completed_at_ms=state.completed_at_ms,
            error=state.error,
        )

    def ring(self) -> None:
        """It has changed."""
        for watcher in self.watchers:
            watcher.set()


def check_plan(plan: Plan) -> None:
    """`Invalid` if a plan cannot be carried out; planning makes none of these."""
    makers = {maker.name for maker in plan.makers}
    before: set[str] = set()
    for task in plan.tasks:
        if not 0 < len(task.key) <= LONGEST_KEY:
            raise Invalid(f"the key of a task has 1 to {LONGEST_KEY} characters: {task.key!r}")
        if task.key in before:
            raise Invalid(f"task {task.key} stands in the plan twice")
        if task.maker not in makers:
            raise Invalid(f"task {task.key} has no maker {task.maker!r} in the plan")
        missing = [dep for dep in task.deps if dep not in before]
        if missing:
            raise Invalid(f"task {task.key} waits for {missing[0]}, which does not stand before it")
        if any(not 0 <= index < len(plan.reads) for index in task.inputs):
            raise Invalid(f"task {task.key} reads what the plan does not name")
        before.add(task.key)
    named = [plan.project, *makers, *(maker.pool for maker in plan.makers)]
    if any(not 0 < len(name) <= LONGEST_LABEL for name in named):
        raise Invalid(f"names of projects, makers and pools have 1 to {LONGEST_LABEL} characters")
    if any(slots < 1 for slots in plan.pools.values()):
        raise Invalid("a pool has one slot or more")
