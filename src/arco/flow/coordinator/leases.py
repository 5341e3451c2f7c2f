"""What attempts hold while they run: the lease of their task, locks on partitions, and slots of pools.

Inside a process a lease is measured by elapsed time alone. Its stored copy is a hint, written with each
heartbeat: the progress and the inputs of the attempt, which a restart loses without it.

No two active attempts write the same partition, and some need a table exclusively. Tasks that meet a lock
wait under its key and are queued again when it is released, so nothing polls. A partition whose last
holder stopped reporting is unfenced: the next attempt has to fence it (P35).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from arco.core import json
from arco.core.errors import Invalid
from arco.core.tasks import AsyncEvent
from arco.flow.coordinator.attempt_events import OutputPartition
from arco.flow.coordinator.messages import LEASE_MS, InputDigest, Progress, TaskInput
from arco.flow.plan.plan import Plan, PlannedTask
from arco.storage.store import Store

FORMAT = 1

Pool = tuple[str, str]  # project and pool name
TaskId = tuple[str, str]  # run id and task key
LockKey = tuple[str, str, str]  # table, kind of wait, and partition

_EXCLUSIVE, _SHARED, _PARTITION = "exclusive", "shared", "partition"


class LeaseHint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`leases/{attempt_id}.json`."""

    format: int
    run_id: str
    key: str
    attempt: int
    worker: str
    until_ms: int
    progress: Progress = Progress()
    inputs: tuple[InputDigest, ...] = ()


@dataclass(frozen=True)
class LockRequest:
    """A partition that an attempt is about to write; `is_exclusive`: it needs all of the table."""

    table: str
    partition: str
    is_exclusive: bool = False


@dataclass
class TaskLease:
    """An active attempt and all that it holds."""

    run_id: str
    key: str
    attempt: int
    attempt_id: str
    worker: str
    pool: Pool
    locks: tuple[LockRequest, ...]
    outputs: tuple[OutputPartition, ...]
    until_ms: float  # elapsed time
    inputs: tuple[TaskInput, ...] | None = ()  # None: they were lost in a restart
    kept_outputs: tuple[OutputPartition, ...] = ()  # published before, not by this attempt
    progress: Progress = field(default_factory=Progress)
    reported_error: Exception | None = None  # why its end could not be recorded the last time

    def hint(self, now_ms: int) -> bytes:
        """The stored copy, with a full lease from now."""
        return json.encode(
            LeaseHint(
                format=FORMAT,
                run_id=self.run_id,
                key=self.key,
                attempt=self.attempt,
                worker=self.worker,
                until_ms=now_ms + LEASE_MS,
                progress=self.progress,
                inputs=digest_inputs(self.inputs or ()),
            )
        )


class ActiveLeases:
    """All active attempts by id, and the events of workers that wait to learn that one must stop."""

    def __init__(self) -> None:
        self.live: dict[str, TaskLease] = {}
        self.watchers: set[AsyncEvent] = set()

    def notify(self) -> None:
        """Some attempts must stop."""
        for watcher in self.watchers:
            watcher.set()


def lease_key(attempt_id: str) -> str:
    """The key of the hint of a lease."""
    return f"leases/{attempt_id}.json"


async def find_lease_hint(store: Store, attempt_id: str) -> LeaseHint | None:
    """The hint of a lease; None if there is none that this version can read."""
    raw = await store.find(lease_key(attempt_id))
    try:
        hint = None if raw is None else json.decode(raw, LeaseHint)
    except Invalid:
        return None
    return hint if hint is not None and hint.format == FORMAT else None


def digest_inputs(inputs: Sequence[TaskInput]) -> tuple[InputDigest, ...]:
    """Inputs without what the plan has."""
    return tuple(InputDigest(each.table_id, each.digest) for each in inputs)


def restore_inputs(
    plan: Plan, task: PlannedTask, digests: Sequence[InputDigest] | None
) -> tuple[TaskInput, ...] | None:
    """The inputs of an attempt; None if the digests are missing or do not fit the task."""
    if not task.inputs:
        return ()
    if digests is None or len(digests) != len(task.inputs):
        return None
    reads = [plan.reads[index] for index in task.inputs]
    return tuple(
        TaskInput(
            table=read.table,
            table_id=digest.table_id,
            partitions=read.partitions,
            digest=digest.digest,
        )
        for read, digest in zip(reads, digests, strict=True)
    )


class PoolSlots:
    """The slots that are taken, of all pools of all projects."""

    def __init__(self) -> None:
        self._taken: Counter[Pool] = Counter()

    def has_free(self, pool: Pool, slots: int | None) -> bool:
        """Whether another attempt may start; a pool without a bound always has a free slot."""
        return slots is None or self._taken[pool] < slots

    def take(self, pool: Pool) -> None:
        self._taken[pool] += 1

    def release(self, pool: Pool) -> None:
        self._taken[pool] -= 1
        if not self._taken[pool]:
            del self._taken[pool]


@dataclass
class _TableHolders:
    """The tasks that hold a table."""

    exclusive_holder: TaskId | None = None
    partitions: dict[str, TaskId] = field(default_factory=dict)

    @property
    def is_free(self) -> bool:
        return self.exclusive_holder is None and not self.partitions


class PartitionLocks:
    """All partitions that active attempts hold."""

    def __init__(self) -> None:
        self._held: dict[str, _TableHolders] = {}
        self._waiting: dict[LockKey, dict[TaskId, None]] = {}  # in the order of arrival
        self._unfenced: set[tuple[str, str]] = set()

    def find_held(self, requests: tuple[LockRequest, ...]) -> LockKey | None:
        """What an attempt would have to wait for; None if it may start."""
        for request in requests:
            held = self._held.get(request.table)
            if held is None:
                continue
            if request.is_exclusive and not held.is_free:
                return request.table, _EXCLUSIVE, ""
            if held.exclusive_holder is not None:
                return request.table, _SHARED, ""
            if request.partition in held.partitions:
                return request.table, _PARTITION, request.partition
        return None

    def take(self, requests: tuple[LockRequest, ...], task: TaskId) -> None:
        """Lock partitions for a task; after a restart two tasks may hold the same."""
        for request in requests:
            held = self._held.setdefault(request.table, _TableHolders())
            if request.is_exclusive:
                held.exclusive_holder = task
            else:
                held.partitions[request.partition] = task

    def release(self, requests: tuple[LockRequest, ...], task: TaskId) -> list[TaskId]:
        """Unlock partitions of a task; the tasks that may try again."""
        freed: list[TaskId] = []
        for request in requests:
            held = self._held.get(request.table)
            if held is None:
                continue
            if request.is_exclusive and held.exclusive_holder == task:
                held.exclusive_holder = None
                freed += self._wake((request.table, _SHARED, ""))
            elif not request.is_exclusive and held.partitions.get(request.partition) == task:
                del held.partitions[request.partition]
                freed += self._wake((request.table, _PARTITION, request.partition))
            if held.is_free:
                del self._held[request.table]
                freed += self._wake_first((request.table, _EXCLUSIVE, ""))
        return freed

    def wake_next(self, requests: tuple[LockRequest, ...]) -> list[TaskId]:
        """A task that was woken no longer needs these; the tasks that may try in its place."""
        tables = [
            each.table for each in requests if each.is_exclusive and each.table not in self._held
        ]
        return [task for table in tables for task in self._wake_first((table, _EXCLUSIVE, ""))]

    def wait(self, lock_key: LockKey, task: TaskId) -> None:
        """A task waits until the lock that it met is released."""
        self._waiting.setdefault(lock_key, {})[task] = None

    def wake(self, tables: set[str]) -> list[TaskId]:
        """All tasks that wait for these tables: their run ended, so it will not release them."""
        lock_keys = [lock_key for lock_key in self._waiting if lock_key[0] in tables]
        return [task for lock_key in lock_keys for task in self._wake(lock_key)]

    def mark_unfenced(self, requests: tuple[LockRequest, ...]) -> None:
        """The holder was lost, and may still be writing."""
        self._unfenced.update((each.table, each.partition) for each in requests)

    def mark_fenced(self, request: LockRequest) -> None:
        """The partition was fenced, or its holder reported after all."""
        self._unfenced.discard((request.table, request.partition))

    def is_unfenced(self, request: LockRequest) -> bool:
        """Whether a lost attempt may still be writing the partition."""
        return (request.table, request.partition) in self._unfenced

    def _wake(self, lock_key: LockKey) -> Iterator[TaskId]:
        yield from self._waiting.pop(lock_key, {})

    def _wake_first(self, lock_key: LockKey) -> list[TaskId]:
        """The first task of each run: one gets the table, but any run may lack a worker."""
        waiting = self._waiting.get(lock_key, {})
        first: dict[str, TaskId] = {}
        for task in waiting:
            first.setdefault(task[0], task)
        for task in first.values():
            del waiting[task]
        if not waiting:
            self._waiting.pop(lock_key, None)
        return [*first.values()]
