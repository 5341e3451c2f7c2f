"""What can be said of one partition, or of all partitions of a table, and how it reads."""

from collections.abc import Iterator
from dataclasses import dataclass

from arco.flow.plan.document import told_time
from arco.flow.plan.key import task_key

UP_TO_DATE = "UP_TO_DATE"
WAITING = "WAITING"
BLOCKED = "BLOCKED"
SOURCE = "SOURCE"


@dataclass(frozen=True)
class ReadNow:
    """An input as it stands: what is read of it, what of that has no data, and how new it is."""

    table: str
    partitions: tuple[str, ...]  # as runs
    lacks: tuple[str, ...]
    made_at_ms: int | None  # of the newest that is read
    is_newer: bool  # than the data of the partition that reads it
    skips_missing: bool = False  # what has no data is skipped, and not waited for


@dataclass(frozen=True)
class Affected:
    """What reads the partition: of which table, and which partitions of it, as runs."""

    table: str
    partitions: tuple[str, ...]


@dataclass(frozen=True)
class Group:
    """Partitions of a table that stand alike, as runs."""

    status: str
    partitions: tuple[str, ...]
    count: int


@dataclass(frozen=True)
class Failure:
    """What became of a task when it last failed, and which checks found something."""

    task: str
    run_id: str
    error: str | None = None
    checks: tuple[str, ...] = ()  # a sentence for each


@dataclass(frozen=True)
class Explanation:
    """Why a partition is, or is not, to be made.

    `status` is UP_TO_DATE, SOURCE, WAITING for data that nobody makes, BLOCKED by a failure above or
    because a plan does not make it, or a reason.
    `partition` is None where the table as a whole was asked about: `groups` then tells how its
    partitions stand. Recorded is what the worker that made the data told; the other is what would be
    recorded if they were made now. `failed` are the tasks whose failure is the reason, `failures` what is
    known of them, once somebody has looked it up.
    """

    table: str
    partition: str | None
    status: str
    why: str = ""
    material: str | None = None
    made_at_ms: int | None = None
    code_recorded: str | None = None
    code_now: str | None = None
    inputs_recorded: str | None = None
    inputs_now: str | None = None
    inputs: tuple[ReadNow, ...] = ()
    downstream: tuple[Affected, ...] = ()
    groups: tuple[Group, ...] = ()
    failed: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()
    maker: str | None = None  # the asset or task that makes it
    code_changes: tuple[
        str, ...
    ] = ()  # the parts of its code that changed, once they were looked up

    def lines(self) -> list[str]:
        """The same for people."""
        return list(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{task_key(self.table, self.partition or '')}: {self.status}" + (
            f" - {self.why}" if self.why else ""
        )
        for failure in self.failures:
            error = f": {failure.error}" if failure.error else ""
            yield f"  {failure.task} failed in run {failure.run_id}{error}"
            yield from (f"    {check}" for check in failure.checks)
        if self.made_at_ms is not None:
            by = f" by attempt {self.material}" if self.material and self.code_now else ""
            yield f"  made at {told_time(self.made_at_ms)}{by}"
        if self.groups and self.code_now is not None:
            yield f"  code: now {self.code_now[:12]}"  # each partition has its own record
        else:
            yield from _compared("code", self.code_recorded, self.code_now)
            yield from (f"    {change}" for change in self.code_changes)
        yield from _compared("inputs", self.inputs_recorded, self.inputs_now)
        for each in self.inputs:
            yield f"  reads {_partitions(each.table, each.partitions)}{_standing(each)}"
        for below in self.downstream:
            yield f"  read by {_partitions(below.table, below.partitions)}"
        for group in self.groups:
            yield f"  {group.status}: {group.count}, {_shown(group.partitions)}"


def _compared(what: str, recorded: str | None, now: str | None) -> Iterator[str]:
    if now is None:
        return
    if recorded is None:
        yield f"  {what}: now {now[:12]}, nothing recorded"
    elif recorded == now:
        yield f"  {what}: {now[:12]}, as recorded"
    else:
        yield f"  {what}: now {now[:12]}, recorded {recorded[:12]}"


def _partitions(table: str, partitions: tuple[str, ...]) -> str:
    return f"{task_key(table, '')} {_shown(partitions)}".rstrip()


def _shown(partitions: tuple[str, ...], most: int = 6) -> str:
    more = f" and {len(partitions) - most} more" if len(partitions) > most else ""
    return ", ".join(each for each in partitions[:most] if each) + more


def _standing(each: ReadNow) -> str:
    said = []
    if each.lacks:
        skipped = "skipped, " if each.skips_missing else ""
        said.append(f"{skipped}no data: {_shown(each.lacks) or 'at all'}")
    if each.made_at_ms is not None:
        newer = ", after what was made from it" if each.is_newer else ""
        said.append(f"newest of {told_time(each.made_at_ms)}{newer}")
    return f" ({'; '.join(said)})" if said else ""
