"""Locks: no two live attempts make the same partition, and some attempts want a table for themselves.

Tasks that meet a lock are parked under what they wait for, and come back when it is given back: nobody
tries again and again. Of those that want a table alone few are woken, and one that has ended meanwhile
passes on. A partition whose last holder was never heard of is `unsettled`: whoever takes it next has to
fence it (P35).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

Task = tuple[str, str]  # the run, and the key of the task
Gate = tuple[str, str, str]  # the table, what kind of wait it is, and the partition

_ALONE, _SHARED, _PARTITION = "alone", "shared", "partition"


@dataclass(frozen=True)
class Want:
    """A partition that an attempt is about to make; `alone`: nobody else may be at the table."""

    table: str
    partition: str
    alone: bool = False


@dataclass
class _Held:
    """Who is at a table."""

    alone: Task | None = None
    partitions: dict[str, Task] = field(default_factory=dict)

    @property
    def is_free(self) -> bool:
        return self.alone is None and not self.partitions


class Locks:
    """All partitions that live attempts hold."""

    def __init__(self) -> None:
        self._held: dict[str, _Held] = {}
        self._parked: dict[Gate, dict[Task, None]] = {}  # in the order of coming
        self._unsettled: set[tuple[str, str]] = set()

    def gate(self, wants: tuple[Want, ...]) -> Gate | None:
        """What an attempt would have to wait for; None if it may begin."""
        for want in wants:
            held = self._held.get(want.table)
            if held is None:
                continue
            if want.alone and not held.is_free:
                return want.table, _ALONE, ""
            if held.alone is not None:
                return want.table, _SHARED, ""
            if want.partition in held.partitions:
                return want.table, _PARTITION, want.partition
        return None

    def take(self, wants: tuple[Want, ...], task: Task) -> None:
        """A task holds these from now on; after a restart it may be that two do."""
        for want in wants:
            held = self._held.setdefault(want.table, _Held())
            if want.alone:
                held.alone = task
            else:
                held.partitions[want.partition] = task

    def give(self, wants: tuple[Want, ...], task: Task) -> list[Task]:
        """It no longer does; who may try again now."""
        freed: list[Task] = []
        for want in wants:
            held = self._held.get(want.table)
            if held is None:
                continue
            if want.alone and held.alone == task:
                held.alone = None
                freed += self._unpark((want.table, _SHARED, ""))
            elif not want.alone and held.partitions.get(want.partition) == task:
                del held.partitions[want.partition]
                freed += self._unpark((want.table, _PARTITION, want.partition))
            if held.is_free:
                del self._held[want.table]
                freed += self._unpark_first((want.table, _ALONE, ""))
        return freed

    def pass_on(self, wants: tuple[Want, ...]) -> list[Task]:
        """A task that was woken wants these no more; who may try in its place."""
        tables = [want.table for want in wants if want.alone and want.table not in self._held]
        return [task for table in tables for task in self._unpark_first((table, _ALONE, ""))]

    def park(self, gate: Gate, task: Task) -> None:
        """A task waits until what bars its way is given back."""
        self._parked.setdefault(gate, {})[task] = None

    def unpark(self, tables: set[str]) -> list[Task]:
        """All that wait for tables: somebody who would have freed them will not."""
        gates = [gate for gate in self._parked if gate[0] in tables]
        return [task for gate in gates for task in self._unpark(gate)]

    def unsettle(self, wants: tuple[Want, ...]) -> None:
        """Their holder may still be at work, though nobody hears of it."""
        self._unsettled.update((want.table, want.partition) for want in wants)

    def settle(self, want: Want) -> None:
        """It was fenced, or its holder was heard of after all."""
        self._unsettled.discard((want.table, want.partition))

    def is_unsettled(self, want: Want) -> bool:
        """Whether somebody may still be at work on it."""
        return (want.table, want.partition) in self._unsettled

    def _unpark(self, gate: Gate) -> Iterator[Task]:
        yield from self._parked.pop(gate, {})

    def _unpark_first(self, gate: Gate) -> list[Task]:
        """The first task of each run: only one can have the table, but nobody knows whose worker comes."""
        parked = self._parked.get(gate, {})
        first: dict[str, Task] = {}
        for task in parked:
            first.setdefault(task[0], task)
        for task in first.values():
            del parked[task]
        if not parked:
            self._parked.pop(gate, None)
        return [*first.values()]
