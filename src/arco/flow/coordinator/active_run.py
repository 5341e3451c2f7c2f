"""A run in the memory of the coordinator: its state, its ready tasks, and the callers that wait for it."""

import heapq
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from arco.core.errors import ArcoError
from arco.core.tasks import AsyncEvent
from arco.flow.coordinator.attempt_events import OutputPartition
from arco.flow.coordinator.data_versions import VersionSnapshot
from arco.flow.coordinator.events import AttemptEvents
from arco.flow.coordinator.leases import LockRequest
from arco.flow.coordinator.messages import ANY_WORKER, CodeWait, RunView
from arco.flow.coordinator.plan_store import StoredPlan
from arco.flow.coordinator.run_state import RunState, attempt_ids_of
from arco.flow.plan.plan import Maker, Plan


class ReadyQueue:
    """The ready tasks of a run in plan order; a task may be stale, so the taker checks its status."""

    def __init__(self) -> None:
        # By pool and then by maker: a worker has the code of some makers and not of others.
        self._pools: dict[str, dict[str, list[tuple[int, str]]]] = {}

    def put(self, pool: str, maker: str, index: int, key: str) -> None:
        """Add a ready task; `index` is its position in the plan."""
        heapq.heappush(self._pools.setdefault(pool, {}).setdefault(maker, []), (index, key))

    def pools(self) -> list[str]:
        """The pools with ready tasks, that of the first task of the plan first."""
        first = [(min(each[0] for each in by.values()), pool) for pool, by in self._pools.items()]
        return [pool for _, pool in sorted(first)]

    def take(self, pool: str, makers: Container[str]) -> str | None:
        """The next task of a pool that belongs to one of the makers."""
        by_maker = self._pools.get(pool, {})
        heads = ((each[0], maker) for maker, each in by_maker.items() if maker in makers)
        first = min(heads, default=None)
        if first is None:
            return None
        maker = first[1]
        key = heapq.heappop(by_maker[maker])[1]
        if not by_maker[maker]:
            del by_maker[maker]
        if not by_maker:
            del self._pools[pool]
        return key

    def waiting(self) -> Iterator[tuple[str, str, Iterator[str]]]:
        """The pool, the maker and its ready tasks."""
        for pool, by_maker in sorted(self._pools.items()):
            for maker, queue in sorted(by_maker.items()):
                yield pool, maker, (key for _, key in queue)


@dataclass
class ActiveRun:
    """A run and all that the coordinator keeps for it."""

    stored: StoredPlan
    state: RunState
    queue: ReadyQueue = field(default_factory=ReadyQueue)
    versions: VersionSnapshot | None = None  # of its tables; read when first needed
    reserved: set[str] = field(default_factory=set)  # tasks that are being dispatched
    table_ids: dict[str, str] = field(default_factory=dict)
    watchers: set[AsyncEvent] = field(default_factory=set)
    is_finalizing: bool = False
    finalize_again: bool = False
    store_error: ArcoError | None = None  # why its next events cannot be recorded now

    @property
    def run_id(self) -> str:
        return self.stored.run_id

    @property
    def plan(self) -> Plan:
        return self.stored.request.plan

    @cached_property
    def append_again(self) -> frozenset[str]:
        """The tasks that may append rows a second time, because the user asked for it."""
        return frozenset(self.plan.append_again)

    @property
    def worker(self) -> str:
        """The only worker of the run, or `ANY_WORKER`."""
        return self.stored.request.worker

    @property
    def weight(self) -> int:
        """Roughly how much memory it takes: itself, its tasks, and all that its plan names."""
        plan = self.plan
        partitions = sum(len(each.partitions) for each in plan.reads)
        values = sum(map(len, plan.dynamic.values()))
        return 1 + len(plan.tasks) + len(plan.waiting) + len(plan.blocked) + partitions + values

    def accepts(self, worker: str, project: str) -> bool:
        """Whether a worker may execute its tasks."""
        return self.plan.project == project and self.worker in (ANY_WORKER, worker)

    def maker(self, key: str) -> Maker:
        return self.state.tasks[key].maker

    def pool(self, key: str) -> tuple[str, str]:
        """The pool that a task takes its slot from."""
        return self.plan.project, self.maker(key).pool

    def attempt(self, key: str, number: int) -> AttemptEvents:
        """The events of an attempt at a task."""
        return AttemptEvents(self.run_id, key, self.maker(key).name, number)

    def attempt_ids(self) -> Iterator[str]:
        """The ids of all attempts so far."""
        for key, task in self.state.tasks.items():
            yield from attempt_ids_of(self.run_id, key, task.attempt)

    def locks(self, key: str) -> tuple[LockRequest, ...]:
        """The locks that an attempt at a task needs."""
        partition = self.state.tasks[key].task.partition
        return tuple(
            LockRequest(target.table, partition, target.alone) for target in self.maker(key).targets
        )

    def outputs(self, key: str) -> tuple[OutputPartition, ...]:
        """The partitions that a task writes, with the table ids that are known."""
        partition = self.state.tasks[key].task.partition
        return tuple(
            OutputPartition(target.table, self.table_ids.get(target.table), partition)
            for target in self.maker(key).targets
        )

    def view(self, since: int, waits_for_code: tuple[CodeWait, ...] = ()) -> RunView:
        """The run as clients see it."""
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

    def notify(self) -> None:
        """Wake all that wait for a change of the run."""
        for watcher in self.watchers:
            watcher.set()
