"""Planning: from definitions, a selection, the state and the time to tasks with their reasons.

Makers are handled after those that they read from, so that what is planned upstream is known when a
partition is examined. Nothing here depends on the order of a set or a dict.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache

from arco.core.errors import Invalid
from arco.flow.define.asset import AssetDef
from arco.flow.define.options import Retry
from arco.flow.define.project import Project
from arco.flow.partition import Dynamic, PartitionSet
from arco.flow.plan.blocks import (
    Block,
    column_warnings,
    find_append_block,
    find_table_block,
    late_sources,
    newer_rows_lost,
    written_by_others,
)
from arco.flow.plan.context import InputPartitions, PlanningContext
from arco.flow.plan.graph import MakerDef, select_makers, selection_terms
from arco.flow.plan.keys import MAX_KEY, short_name
from arco.flow.plan.partition_selection import select_partitions_of_all
from arco.flow.plan.plan import (
    BlockedPartition,
    Maker,
    Plan,
    PlannedTask,
    PlanTarget,
    ReadPartitions,
    Reason,
    RetryPolicy,
    WaitingPartition,
)
from arco.flow.plan.staleness import Staleness, StalenessCheck
from arco.flow.plan.table_state import PlanningState
from arco.flow.plan.upstream import (
    NO_LEVEL,
    CheckUpstreams,
    PlannedPartitions,
    PlannedTables,
    Upstream,
    find_check_upstreams,
    find_upstreams,
    missing_inputs,
)

STALE = frozenset({Reason.CODE_CHANGED, Reason.UPSTREAM_CHANGED, Reason.FRESHNESS})
_SHOWN_CHARS = 60


def plan(
    project: Project,
    selection: str,
    state: PlanningState,
    now: datetime,
    *,
    partitions: str | None = None,
    only: frozenset[Reason] | None = None,
    force: bool = False,
    append_again: bool = False,
    pools: Mapping[str, int] | None = None,
) -> Plan:
    """Plan what has to be made of the selection, in an order in which it can run.

    `partitions` selects existing partitions; `only` keeps tasks with one of these reasons; `force` makes
    all selected partitions; `append_again` adds rows also where they were appended before. `pools`
    override the slots of the project's pools.
    """
    context = PlanningContext(project, state, now)
    planning = PlanBuilder(context, only, force, append_again)
    planning.add_all(select_makers(context.graph, selection), partitions)
    return planning.plan(" ".join(selection_terms(selection)), {**project.pools, **(pools or {})})


@dataclass(frozen=True)
class _Work:
    """The selected partitions of one maker, and what they depend on."""

    maker: MakerDef
    keys: list[str]
    inputs: list[InputPartitions]
    upstreams: list[Upstream]
    check_upstreams: CheckUpstreams
    planned: PlannedPartitions


@dataclass(frozen=True)
class _Entry:
    """A task of the plan, before levels decide its place."""

    level: int
    number: int
    staleness: Staleness
    work: _Work


@dataclass
class PlanBuilder:
    """Collects the tasks of a plan, maker by maker."""

    context: PlanningContext
    only: frozenset[Reason] | None = None
    force: bool = False
    append_again: bool = False
    planned: PlannedTables = field(default_factory=PlannedTables)
    entries: list[_Entry] = field(default_factory=list)
    waiting: list[WaitingPartition] = field(default_factory=list)
    blocked: list[BlockedPartition] = field(default_factory=list)
    appended_again: list[str] = field(default_factory=list)  # task keys
    works: list[_Work] = field(default_factory=list)
    left_out: dict[str, list[str]] = field(default_factory=dict)  # keys that are too long, by maker
    up_to_date: int = 0

    def add_all(self, makers: list[MakerDef], partitions: str | None = None) -> None:
        """Plan the partitions that a text selects of these makers, which are in topological order."""
        _check_names(makers)
        cuts = [each.partitions for each in makers]
        chosen = select_partitions_of_all(partitions, cuts, self.context.now, self.context.dynamic)
        for maker, keys in zip(makers, chosen, strict=True):
            self._add(maker, keys)

    def _add(self, maker: MakerDef, chosen: PartitionSet) -> None:
        inputs = list(self.context.inputs(maker, chosen))
        planned = PlannedPartitions(maker.name)
        self.planned.add(planned, [each.table for each in maker.outputs])
        check_upstreams = find_check_upstreams(self.context.compared_with(maker), self.planned)
        work = _Work(
            maker,
            list(chosen),
            inputs,
            find_upstreams(inputs, self.planned),
            check_upstreams,
            planned,
        )
        self.works.append(work)
        lacks, check = (
            missing_inputs(inputs, check_upstreams, self.planned),
            self._staleness_check(work),
        )
        block = cache(
            lambda: find_table_block(self.context, maker, self.planned, is_forced=self.force)
        )
        all_staleness = check.forced() if self.force else check.all()
        for number, staleness in enumerate(all_staleness):
            if staleness is None:
                self.up_to_date += 1
            elif self.only is None or staleness.reason in self.only:
                key = planned.key(work.keys[number])
                if len(key) > MAX_KEY:
                    self.left_out.setdefault(maker.name, []).append(key)
                elif (table_block := block()) is not None:
                    self._block(key, table_block)
                elif self._is_blocked(work, check, number, staleness):
                    continue
                elif lacked := lacks(number):
                    self.waiting.append(
                        WaitingPartition(key=key, lacks=tuple(dict.fromkeys(lacked)))
                    )
                else:
                    self._enter(work, number, staleness)

    def _is_blocked(
        self, work: _Work, check: StalenessCheck, number: int, staleness: Staleness
    ) -> bool:
        """Whether a partition must not be made; the cause is recorded."""
        partition = work.keys[number]
        block = find_append_block(work.maker, check, number, partition, staleness)
        if block is None:
            return False
        key = work.planned.key(partition)
        if self.append_again:
            self.appended_again.append(key)
            return False
        self._block(key, block)
        return True

    def _block(self, key: str, block: Block) -> None:
        self.blocked.append(
            BlockedPartition(key=key, reason=block.reason, cause=block.cause, fix=block.fix)
        )

    def _staleness_check(self, work: _Work) -> StalenessCheck:
        context, maker = self.context, work.maker
        return StalenessCheck(
            maker=maker,
            keys=work.keys,
            code=context.project.fingerprints[maker.name],
            outputs=context.outputs(maker),
            own=context.tables.table(maker.name),
            inputs=work.inputs,
            upstreams=work.upstreams,
            now_ms=context.now_ms,
        )

    def _enter(self, work: _Work, number: int, staleness: Staleness) -> None:
        level = 1 + max((each.level(number) for each in work.upstreams), default=NO_LEVEL)
        level = max(level, 1 + work.check_upstreams.level)
        work.planned.levels[work.keys[number]] = level
        self.entries.append(_Entry(level, number, staleness, work))

    def plan(self, selection: str, pools: dict[str, int]) -> Plan:
        """The plan of everything that was added."""
        self.entries.sort(key=lambda each: (each.level, each.work.maker.name, each.number))
        reads = _ReadsOnce(self.planned)
        tasks = tuple(_task(each, reads) for each in self.entries)
        makers = [work.maker for work in self.works if work.planned.levels]
        state, project = self.context.state, self.context.project
        return Plan(
            project=project.name,
            selection=selection,
            now_ms=self.context.now_ms,
            state_number=state.number,
            makers=tuple(
                _plan_maker(
                    each,
                    project.fingerprints[each.name],
                    project.checks_fingerprints.get(each.name),
                )
                for each in sorted(makers, key=lambda each: each.name)
            ),
            reads=tuple(reads.all),
            tasks=tasks,
            waiting=tuple(self.waiting),
            blocked=tuple(self.blocked),
            append_again=tuple(self.appended_again),
            columns=tuple(
                attempt
                for work in self.works
                for table in self.context.outputs(work.maker)
                if (attempt := table.state.last_attempt) is not None
            ),
            up_to_date=self.up_to_date,
            pools=dict(sorted(pools.items())),
            dynamic={
                name: tuple(state.dynamic[name])
                for name in sorted(_dynamic(project) & state.dynamic.keys())
            },
            warnings=tuple(self._warnings()),
        )

    def _warnings(self) -> Iterator[str]:
        yield from late_sources(
            self.context, {each.table for work in self.works for each in work.maker.inputs}
        )
        for keys in self.left_out.values():
            more = f", and {len(keys) - 1} like it" if len(keys) > 1 else ""
            yield (
                f"{keys[0][:_SHOWN_CHARS]}... is left out{more}: the key of a task has at most "
                f"{MAX_KEY} characters, and this {len(keys[0])}"
            )
        for work in self.works:
            yield from written_by_others(self.context, work.maker)
            yield from column_warnings(self.context, work.maker)
            yield from newer_rows_lost(self.context, work.maker, work.planned.levels.keys())


class _ReadsOnce:
    """The partitions that tasks read, stored once for all tasks that read the same."""

    def __init__(self, planned: PlannedTables) -> None:
        self.all: list[ReadPartitions] = []
        self._planned = planned
        self._by_indexes: dict[tuple[int, range | tuple[int, ...]], int] = {}
        self._by_keys: dict[tuple[str, tuple[str, ...], bool], int] = {}

    def number(self, read: InputPartitions, partition: int) -> int:
        indexes = read.upstreams.indexes[partition]
        if (id(read), indexes) in self._by_indexes:
            return self._by_indexes[id(read), indexes]
        name, keys, skips = read.table.name, read.keys(partition), read.skips_missing
        number = self._by_keys.setdefault((name, keys, skips), len(self.all))
        if number == len(self.all):
            skipped = read.skipped(partition, self._planned.of(name) or ())
            reads = ReadPartitions(
                table=name, partitions=keys, skips_missing=skips, skipped=skipped
            )
            self.all.append(reads)
        self._by_indexes[id(read), indexes] = number
        return number


def _task(entry: _Entry, reads: _ReadsOnce) -> PlannedTask:
    work, number = entry.work, entry.number
    partition = work.keys[number]
    deps = [key for each in work.upstreams for key in each.deps(number)]
    return PlannedTask(
        key=work.planned.key(partition),
        maker=work.maker.name,
        partition=partition,
        reason=entry.staleness.reason,
        detail=entry.staleness.detail,
        inputs=tuple(reads.number(each, number) for each in work.inputs),
        deps=tuple(dict.fromkeys([*deps, *work.check_upstreams.deps]))
        if deps
        else work.check_upstreams.deps,
    )


def _dynamic(project: Project) -> set[str]:
    """The dynamic dimensions that the project uses; the state may hold those of other projects."""
    cuts = [*project.tables.values(), *(each.partitions for each in project.makers())]
    return {each.name for cut in cuts for each in cut if isinstance(each, Dynamic)}


def _check_names(makers: list[MakerDef]) -> None:
    """Raise Invalid if a task has the name of a table: task keys must be unique."""
    seen: dict[str, str] = {}
    for maker in makers:
        short = short_name(maker.name)
        if short in seen:
            raise Invalid(
                f"the task {short!r} has the name of a table: give it a name without dots, "
                "@task('report')"
            )
        seen[short] = maker.name


_TASK_MODE = "task"
"""The mode of a table that a task of the project writes."""


def _plan_maker(
    declared: MakerDef,
    code_fingerprint: str | None = None,
    checks_fingerprint: str | None = None,
) -> Maker:
    """What all tasks of a maker share, with the fingerprints of its code and checks."""
    return Maker(
        name=declared.name,
        kind="asset" if isinstance(declared, AssetDef) else "task",
        targets=_plan_targets(declared),
        pool=declared.pool,
        retry=_retry_policy(declared.retries),
        timeout_ms=declared.timeout_ms,
        code_fingerprint=code_fingerprint,
        checks_fingerprint=checks_fingerprint,
    )


def _plan_targets(declared: MakerDef) -> tuple[PlanTarget, ...]:
    """The tables that a maker writes.

    Tasks that merge or replace a complete table run alone: two at once would overwrite each other's rows.
    """
    if not isinstance(declared, AssetDef):
        return tuple(
            PlanTarget(table=each.table, format="", mode=_TASK_MODE) for each in declared.outputs
        )
    mode = declared.mode.kind
    return tuple(
        PlanTarget(
            table=each.table,
            format=declared.format,
            mode=mode,
            alone=mode in ("merge", "replace"),
            on_change=declared.mode.on_change,
        )
        for each in declared.outputs
    )


def _retry_policy(retry: Retry) -> RetryPolicy:
    return RetryPolicy(
        times=retry.times,
        delay_ms=retry.delay_ms,
        factor=float(retry.factor),
        max_ms=retry.max_ms,
        jitter=float(retry.jitter),
    )
