"""Leases: attempts that are under way, and until when nobody else may take their tasks.

Inside a process a lease goes by elapsed time alone. What is stored of it is a hint, written beside each
sign of life: how far the attempt was and what it was given. Losing it costs a restart that knowledge.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from arco.core import json
from arco.core.errors import Invalid
from arco.core.tasks import Event
from arco.flow.plan.plan import Plan, PlannedTask
from arco.flow.run.ending import Written
from arco.flow.run.locks import Want
from arco.flow.run.wire import LEASE_MS, InputGiven, InputMaterial, Progress
from arco.storage.store import Store

FORMAT = 1


class StoredLease(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`leases/{attempt_id}.json`, a hint."""

    format: int
    run_id: str
    key: str
    attempt: int
    worker: str
    until_ms: int
    progress: Progress = Progress()
    inputs: tuple[InputGiven, ...] = ()


@dataclass
class Lease:
    """An attempt under way, and all that it holds."""

    run_id: str
    key: str
    attempt: int
    attempt_id: str
    worker: str
    pool: tuple[str, str]
    wants: tuple[Want, ...]
    written: tuple[Written, ...]
    until_ms: float  # by the clock that never jumps
    inputs: tuple[InputMaterial, ...] | None = ()  # None: nobody knows any more what it was given
    stands: tuple[Written, ...] = ()  # what was published before, and not by it
    progress: Progress = field(default_factory=Progress)
    trouble: Exception | None = None  # why its end could not be told the last time

    @property
    def task(self) -> tuple[str, str]:
        return self.run_id, self.key

    def stored(self, now_ms: int) -> bytes:
        """The hint."""
        return json.encode(
            StoredLease(
                format=FORMAT,
                run_id=self.run_id,
                key=self.key,
                attempt=self.attempt,
                worker=self.worker,
                until_ms=now_ms + LEASE_MS,
                progress=self.progress,
                inputs=given(self.inputs or ()),
            )
        )


class Leases:
    """All attempts under way, and whoever waits to hear that one of them is to stop."""

    def __init__(self) -> None:
        self.live: dict[str, Lease] = {}
        self.watchers: set[Event] = set()

    def ring(self) -> None:
        """Some attempts are to stop."""
        for watcher in self.watchers:
            watcher.set()


def lease_key(attempt_id: str) -> str:
    """Where the hint of a lease is stored."""
    return f"leases/{attempt_id}.json"


async def find_lease(store: Store, attempt_id: str) -> StoredLease | None:
    """The hint of a lease, or None if there is none that makes sense."""
    raw = await store.find(lease_key(attempt_id))
    try:
        found = None if raw is None else json.decode(raw, StoredLease)
    except Invalid:
        return None
    return found if found is not None and found.format == FORMAT else None


def given(inputs: Sequence[InputMaterial]) -> tuple[InputGiven, ...]:
    """Inputs without what stands in the plan."""
    return tuple(InputGiven(each.table_id, each.digest) for each in inputs)


def inputs_given(
    plan: Plan, task: PlannedTask, told: Sequence[InputGiven] | None
) -> tuple[InputMaterial, ...] | None:
    """What an attempt at a task was given to read; None if nothing fitting is told of it."""
    if not task.inputs:
        return ()
    if told is None or len(told) != len(task.inputs):
        return None
    reads = [plan.reads[index] for index in task.inputs]
    return tuple(
        InputMaterial(
            table=each.table,
            table_id=one.table_id,
            partitions=each.partitions,
            digest=one.digest,
        )
        for each, one in zip(reads, told, strict=True)
    )
