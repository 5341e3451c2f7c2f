"""Explanations: why a partition is to be made or not, from a plan of it and of everything upstream."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from arco.core.errors import Invalid
from arco.flow.define.project import Project
from arco.flow.partition import MappingContext, Partitions, PartitionSet
from arco.flow.plan.context import InputPartitions, PlanningContext, TableIndex
from arco.flow.plan.graph import MakerDef, node_names, suggest
from arco.flow.plan.input_fingerprint import fingerprint_function
from arco.flow.plan.keys import describe_keys, key_ranges, short_name, task_key
from arco.flow.plan.plan import Plan, PlannedTask, Reason, format_time
from arco.flow.plan.planner import PlanBuilder
from arco.flow.plan.table_state import PlanningState

UP_TO_DATE = "UP_TO_DATE"
WAITING = "WAITING"
BLOCKED = "BLOCKED"
SOURCE = "SOURCE"


@dataclass(frozen=True)
class InputStatus:
    """The state of an input: what is read of it, what of that has no data, and how new it is."""

    table: str
    partitions: tuple[str, ...]  # as ranges
    lacks: tuple[str, ...]
    made_at_ms: int | None  # of the newest partition that is read
    is_newer: bool  # than the data of the partition that reads it
    skips_missing: bool = False  # partitions without data are skipped, not waited for


@dataclass(frozen=True)
class DownstreamPartitions:
    """The partitions of a table that read the explained one, as ranges."""

    table: str
    partitions: tuple[str, ...]


@dataclass(frozen=True)
class StatusGroup:
    """Partitions of a table with the same status, as ranges."""

    status: str
    partitions: tuple[str, ...]
    count: int


@dataclass(frozen=True)
class OlderCode:
    """Partitions that were made by the same older code, as ranges, and what has changed since."""

    code: str
    partitions: tuple[str, ...]
    count: int
    changes: tuple[str, ...] = ()  # the caller fills them in


@dataclass(frozen=True)
class TaskFailure:
    """The last failure of a task, and the checks that failed."""

    task: str
    run_id: str
    error: str | None = None
    checks: tuple[str, ...] = ()  # a sentence for each


@dataclass(frozen=True)
class Explanation:
    """Why a partition is, or is not, to be made.

    `status` is UP_TO_DATE, SOURCE, WAITING for data that the plan does not make, BLOCKED by an upstream
    failure or because a plan does not make it, or the reason of a task.
    `partition` is None for an explanation of the complete table: `groups` then has the status of its
    partitions, and `older_codes` those that other code than the present has made, the newest first.
    `*_recorded` is what the worker reported that made the data, `*_now` what would be recorded today.
    `failed` are the tasks whose failure is the reason; the caller fills in `failures`.
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
    inputs: tuple[InputStatus, ...] = ()
    downstream: tuple[DownstreamPartitions, ...] = ()
    groups: tuple[StatusGroup, ...] = ()
    older_codes: tuple[OlderCode, ...] = ()
    failed: tuple[str, ...] = ()
    failures: tuple[TaskFailure, ...] = ()
    maker: str | None = None  # the asset or task that makes it
    code_changes: tuple[str, ...] = ()  # the changed parts of its code; the caller fills them in

    def lines(self) -> list[str]:
        """The explanation as text for the terminal."""
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
            yield f"  made at {format_time(self.made_at_ms)}{by}"
        if self.groups and self.code_now is not None:
            yield f"  code: now {self.code_now[:12]}"  # each partition has its own record
            for older in self.older_codes:
                which = f"{older.count}, {_shown(older.partitions)}"
                yield f"    recorded {older.code[:12]}: {which}"
                yield from (f"      {change}" for change in older.changes)
        else:
            yield from _compared("code", self.code_recorded, self.code_now)
            yield from (f"    {change}" for change in self.code_changes)
        yield from _compared("inputs", self.inputs_recorded, self.inputs_now)
        for each in self.inputs:
            yield f"  reads {_partitions(each.table, each.partitions)}{_describe_input(each)}"
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


def _describe_input(each: InputStatus) -> str:
    selection = []
    if each.lacks:
        skipped = "skipped, " if each.skips_missing else ""
        selection.append(f"{skipped}no data: {_shown(each.lacks) or 'at all'}")
    if each.made_at_ms is not None:
        newer = ", after what was made from it" if each.is_newer else ""
        selection.append(f"newest of {format_time(each.made_at_ms)}{newer}")
    return f" ({'; '.join(selection)})" if selection else ""


def explain(
    project: Project, table: str, partition: str | None, state: PlanningState, now: datetime
) -> Explanation:
    """Explain the status of a partition; without one, of all partitions of a table.

    `table` is a table or the name of a task, `partition` a key or a value such as `2026-01-15`.
    """
    context = PlanningContext(project, state, now)
    node = next((each for each in context.graph.nodes.values() if table in node_names(each)), None)
    if node is None:
        names = {
            short_name(name) for each in context.graph.nodes.values() for name in node_names(each)
        }
        raise Invalid(f"there is no table or task {table!r}{suggest(table, names)}")
    name = next(each for each in node_names(node) if table in (each, short_name(each)))
    key = _key(node.partitions, partition, context)
    if name not in project.made_by and name in {each.name for each in project.sources}:
        return _of_source(name, key, context)
    maker = project.made_by.get(name) or next(each for each in project.tasks if each.name == name)
    builder = PlanBuilder(context)
    builder.add_all(context.graph.in_order(context.graph.upstream([maker.name], None)))
    planned = builder.plan(short_name(name), {})
    if key is None:
        return _of_all(name, maker, planned, context)
    return _of_one(name, maker, key, planned, context)


def _key(partitions: Partitions, selection: str | None, context: PlanningContext) -> str | None:
    """The key of the one selected partition; '' for an asset without partitions."""
    if selection is None:
        return None if partitions else ""
    chosen = partitions.parse(selection, context.now, context.dynamic)
    if len(chosen) != 1:
        raise Invalid(f"{selection!r} chooses {len(chosen)} partitions: write one of them")
    return next(iter(chosen))


def _of_source(name: str, key: str | None, context: PlanningContext) -> Explanation:
    table = context.tables.table(name)
    exists = table.state.table_id is not None
    return Explanation(
        table=name,
        partition=key,
        status=SOURCE if exists else WAITING,
        why="the project does not fill it" if exists else "there is no such table yet",
        material=None if key is None else table.material(key),
        made_at_ms=table.state.changed_at_ms if key is None else table.made_at_ms(key),
        downstream=tuple(_downstream(name, key, context)),
    )


def _of_all(name: str, maker: MakerDef, planned: Plan, context: PlanningContext) -> Explanation:
    statuses = _statuses(maker, planned)
    by_status: dict[str, list[str]] = {}
    for key in maker.partitions.keys(context.now, context.dynamic):
        by_status.setdefault(statuses.get(key, (UP_TO_DATE, ""))[0], []).append(key)
    groups = tuple(
        StatusGroup(status, tuple(key_ranges(keys)), len(keys))
        for status, keys in sorted(by_status.items())
    )
    count = sum(group.count for group in groups)
    code = context.project.fingerprints[maker.name]
    return Explanation(
        table=name,
        partition=None,
        status=groups[0].status if len(groups) == 1 else "MIXED",
        why=f"{count} partitions",
        code_now=code,
        groups=groups,
        older_codes=tuple(_older_codes(_recorded_table(name, maker, context), code)),
        maker=maker.name,
        downstream=tuple(_downstream(name, None, context)),
    )


def _recorded_table(name: str, maker: MakerDef, context: PlanningContext) -> TableIndex:
    """The table that is explained; for a task its first output, or its own state."""
    if name in context.project.made_by:
        return context.tables.table(name)
    return context.outputs(maker)[0]


def _older_codes(table: TableIndex, code_now: str) -> Iterator[OlderCode]:
    """The codes other than the present that made existing partitions, the newest first."""
    keys: dict[str, list[str]] = {}
    newest_ms: dict[str, int] = {}
    for key, row in table.rows.items():
        code = table.state.code_fingerprints[row]
        if code is not None and code != code_now and table.by_key.get(key) is not None:
            keys.setdefault(code, []).append(key)
            newest_ms[code] = max(newest_ms.get(code, 0), table.made_at_ms(key) or 0)
    for code in sorted(keys, key=lambda each: (-newest_ms[each], each)):
        yield OlderCode(code, tuple(key_ranges(keys[code])), len(keys[code]))


def _of_one(
    name: str, maker: MakerDef, key: str, planned: Plan, context: PlanningContext
) -> Explanation:
    status, why = _statuses(maker, planned).get(
        key, (UP_TO_DATE, "nothing it is made from changed")
    )
    table = _recorded_table(name, maker, context)
    row = table.rows.get(key)
    made_at = table.made_at_ms(key)
    axes = maker.partitions.axes(context.dynamic)
    inputs = context.inputs(maker, PartitionSet.of_keys(axes, [key]))
    code = context.project.fingerprints[maker.name]
    recorded_code = None if row is None else table.state.code_fingerprints[row]
    # An input fingerprint contains the code: with the recorded code, only other data make a difference.
    fingerprint = fingerprint_function(
        recorded_code or code, [each.table.identity for each in inputs]
    )
    return Explanation(
        table=name,
        partition=key,
        status=status,
        why=why,
        material=table.material(key),
        made_at_ms=made_at,
        code_recorded=recorded_code,
        code_now=code,
        inputs_recorded=None if row is None else table.state.input_fingerprints[row],
        inputs_now=fingerprint([each.digests[0] for each in inputs]),
        inputs=tuple(_read_now(each, made_at) for each in inputs),
        downstream=tuple(_downstream(name, key, context)),
        maker=maker.name,
        failed=tuple(each.key for each in _failed(task_key(maker.name, key), _by_key(planned))),
    )


def _statuses(maker: MakerDef, planned: Plan) -> dict[str, tuple[str, str]]:
    """The status and the reason of the partitions of a maker that are not up to date."""
    held, tasks = _held_back(planned.tasks), _by_key(planned)
    statuses: dict[str, tuple[str, str]] = {}
    for task in planned.tasks:
        if task.maker == maker.name and task.key in held:
            statuses[task.partition] = (BLOCKED, f"{task.detail}, and {_holding(task.key, tasks)}")
        elif task.maker == maker.name:
            statuses[task.partition] = (task.reason.value, task.detail)
    prefix = task_key(maker.name, "")
    for each in planned.waiting:
        name, _, partition = each.key.partition("@")
        if name == prefix:
            statuses[partition] = (WAITING, f"there are no data in {', '.join(each.lacks)}")
    for blocked in planned.blocked:
        name, _, partition = blocked.key.partition("@")
        if name == prefix:
            statuses[partition] = (BLOCKED, ". ".join(filter(None, (blocked.cause, blocked.fix))))
    return statuses


def _held_back(tasks: Sequence[PlannedTask]) -> set[str]:
    """The tasks that did not fail, but wait for one that did; tasks come after their deps."""
    held: set[str] = set()
    failed: set[str] = set()
    for task in tasks:
        if task.reason is Reason.FAILED:
            failed.add(task.key)
        elif not (held.isdisjoint(task.deps) and failed.isdisjoint(task.deps)):
            held.add(task.key)
    return held


def _by_key(planned: Plan) -> dict[str, PlannedTask]:
    return {task.key: task for task in planned.tasks}


def _failed(key: str, tasks: dict[str, PlannedTask]) -> list[PlannedTask]:
    """The task itself if it failed, otherwise the nearest failed tasks upstream."""
    failed: list[PlannedTask] = []
    seen, pending = set[str](), [key] if key in tasks else []
    for each in pending:  # grows during the loop
        if each in seen:
            continue
        seen.add(each)
        task = tasks[each]
        if task.reason is Reason.FAILED:
            failed.append(task)
        else:
            pending += task.deps
    return failed


def _holding(key: str, tasks: dict[str, PlannedTask]) -> str:
    """The nearest failures upstream of a task, as part of a sentence."""
    failed: dict[str, list[str]] = {}
    for task in _failed(key, tasks):
        failed.setdefault(task.maker, []).append(task.partition)
    which = ", ".join(
        f"{short_name(name)} {describe_keys(keys)}".rstrip() for name, keys in failed.items()
    )
    return f"an upstream task failed last time: {which}"


def _read_now(each: InputPartitions, made_at_ms: int | None) -> InputStatus:
    keys = each.keys(0)
    lacks = [key for key in keys if each.table.material(key) is None]
    times = [at for key in keys if (at := each.table.made_at_ms(key)) is not None]
    newest = max(times, default=None)
    return InputStatus(
        table=each.table.name,
        partitions=tuple(key_ranges(keys)),
        lacks=tuple(key_ranges(lacks)),
        made_at_ms=newest,
        is_newer=newest is not None and made_at_ms is not None and newest > made_at_ms,
        skips_missing=each.skips_missing,
    )


def _downstream(
    table: str, key: str | None, context: PlanningContext
) -> Iterator[DownstreamPartitions]:
    """What reads a partition directly; without a key, what reads the table at all."""
    reads = context.project.tables[table] if table in context.project.tables else Partitions()
    for maker in sorted(context.project.makers(), key=lambda each: each.name):
        downstream_keys: dict[str, None] = {}
        is_reading = False
        for declared in maker.inputs:
            if declared.table == table and declared.mapping is not None:
                is_reading = True
                if key is not None:
                    mapping_context = MappingContext(
                        maker.partitions, reads, context.now, context.dynamic
                    )
                    with context.mapping_errors(maker, declared):
                        downstream_keys.update(
                            dict.fromkeys(declared.mapping.downstream(key, mapping_context))
                        )
        if downstream_keys or (is_reading and key is None):
            yield DownstreamPartitions(maker.name, tuple(key_ranges(downstream_keys)))
