"""Planning: from definitions, a selection, the state and the time to tasks with their reasons.

Makers are taken each after those that it reads from, so that what is planned above is known when a
partition is judged. Nothing here depends on the order of a set or a dict.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache

from arco.core.errors import Invalid
from arco.flow.define.project import Project
from arco.flow.partition import Dynamic, PartitionSet
from arco.flow.plan.above import Above, Before, above, before, lacking
from arco.flow.plan.blocks import Block, block_of_append
from arco.flow.plan.caution import late_sources, newer_rows_lost, written_by_others
from arco.flow.plan.choice import choose_partitions
from arco.flow.plan.graph import MakerDef
from arco.flow.plan.inputs import Input
from arco.flow.plan.judge import Judge, Verdict
from arco.flow.plan.key import LONGEST_KEY, short_name
from arco.flow.plan.makers import maker_of
from arco.flow.plan.placed import NOWHERE, Placed, Plans
from arco.flow.plan.plan import Blocked, Plan, PlannedTask, Reads, Reason, Waiting
from arco.flow.plan.scene import Scene
from arco.flow.plan.selection import selected, terms
from arco.flow.plan.table_blocks import block_of_table, column_warnings
from arco.flow.state import State

STALE = frozenset({Reason.CODE_CHANGED, Reason.UPSTREAM_CHANGED, Reason.FRESHNESS})
_SHOWN_CHARS = 60
_FORCED = Verdict(Reason.FORCED, "it was asked for")


def plan(
    project: Project,
    selection: str,
    state: State,
    now: datetime,
    *,
    partitions: str | None = None,
    only: frozenset[Reason] | None = None,
    force: bool = False,
    append_again: bool = False,
    pools: Mapping[str, int] | None = None,
) -> Plan:
    """What has to be made of what was selected, in the order in which it can be.

    `partitions` chooses among those that exist; `only` keeps what has one of these reasons; `force` makes
    everything anew; `append_again` adds the rows of partitions that were appended before. `pools` are
    slots that stand before those of the project.
    """
    scene = Scene(project, state, now)
    planning = Planning(scene, only, force, append_again)
    planning.add_all(selected(scene.graph, selection), partitions)
    return planning.plan(" ".join(terms(selection)), {**project.pools, **(pools or {})})


@dataclass(frozen=True)
class _Work:
    """The partitions of one maker that were asked for, while they are judged."""

    maker: MakerDef
    keys: list[str]
    inputs: list[Input]
    above: list[Above]
    first: Before
    placed: Placed


@dataclass(frozen=True)
class _Entry:
    """A task that will stand in the plan; entries sort as tasks do."""

    level: int
    number: int
    verdict: Verdict
    work: _Work


@dataclass
class Planning:
    """A plan in the making."""

    scene: Scene
    only: frozenset[Reason] | None = None
    force: bool = False
    append_again: bool = False
    plans: Plans = field(default_factory=Plans)
    entries: list[_Entry] = field(default_factory=list)
    waiting: list[Waiting] = field(default_factory=list)
    blocked: list[Blocked] = field(default_factory=list)
    appended_again: list[str] = field(default_factory=list)  # keys of tasks
    works: list[_Work] = field(default_factory=list)
    left_out: dict[str, list[str]] = field(default_factory=dict)  # keys that are too long, by maker
    up_to_date: int = 0

    def add_all(self, makers: list[MakerDef], partitions: str | None = None) -> None:
        """Judge what a text chooses of these, each of which stands after those that it reads from."""
        _check_names(makers)
        cuts = [each.partitions for each in makers]
        chosen = choose_partitions(partitions, cuts, self.scene.now, self.scene.dynamic)
        for maker, keys in zip(makers, chosen, strict=True):
            self._add(maker, keys)

    def _add(self, maker: MakerDef, chosen: PartitionSet) -> None:
        inputs = list(self.scene.inputs(maker, chosen))
        placed = Placed(maker.name)
        self.plans.enter(placed, [each.table for each in maker.outputs])
        first = before(self.scene.compared_with(maker), self.plans)
        work = _Work(maker, list(chosen), inputs, above(inputs, self.plans), first, placed)
        self.works.append(work)
        lacks, judge = lacking(inputs, first, self.plans), self._judge(work)
        block = cache(lambda: block_of_table(self.scene, maker, self.plans, is_forced=self.force))
        verdicts = [_FORCED] * len(work.keys) if self.force else judge.verdicts()
        for number, verdict in enumerate(verdicts):
            if verdict is None:
                self.up_to_date += 1
            elif self.only is None or verdict.reason in self.only:
                key = placed.key(work.keys[number])
                if len(key) > LONGEST_KEY:
                    self.left_out.setdefault(maker.name, []).append(key)
                elif (table_block := block()) is not None:
                    self._block(key, table_block)
                elif self._is_blocked(work, judge, number, verdict):
                    continue
                elif lacked := lacks(number):
                    self.waiting.append(Waiting(key=key, lacks=tuple(dict.fromkeys(lacked))))
                else:
                    self._enter(work, number, verdict)

    def _is_blocked(self, work: _Work, judge: Judge, number: int, verdict: Verdict) -> bool:
        """Whether a partition must not be made; noted with the cause."""
        partition = work.keys[number]
        block = block_of_append(work.maker, judge, number, partition, verdict)
        if block is None:
            return False
        key = work.placed.key(partition)
        if self.append_again:
            self.appended_again.append(key)
            return False
        self._block(key, block)
        return True

    def _block(self, key: str, block: Block) -> None:
        self.blocked.append(Blocked(key=key, reason=block.reason, cause=block.cause, fix=block.fix))

    def _judge(self, work: _Work) -> Judge:
        scene, maker = self.scene, work.maker
        return Judge(
            maker=maker,
            keys=work.keys,
            code=scene.project.fingerprints[maker.name],
            outputs=scene.outputs(maker),
            own=scene.known.table(maker.name),
            inputs=work.inputs,
            above=work.above,
            now_ms=scene.now_ms,
        )

    def _enter(self, work: _Work, number: int, verdict: Verdict) -> None:
        level = 1 + max((each.level(number) for each in work.above), default=NOWHERE)
        level = max(level, 1 + work.first.level)
        work.placed.levels[work.keys[number]] = level
        self.entries.append(_Entry(level, number, verdict, work))

    def plan(self, selection: str, pools: dict[str, int]) -> Plan:
        """The plan of all that was added."""
        self.entries.sort(key=lambda each: (each.level, each.work.maker.name, each.number))
        reads = _ReadsOnce(self.plans)
        tasks = tuple(_task(each, reads) for each in self.entries)
        makers = [work.maker for work in self.works if work.placed.levels]
        state, project = self.scene.state, self.scene.project
        return Plan(
            project=project.name,
            selection=selection,
            now_ms=self.scene.now_ms,
            state_number=state.number,
            makers=tuple(
                maker_of(
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
                last
                for work in self.works
                for table in self.scene.outputs(work.maker)
                if (last := table.state.last_attempt) is not None
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
            self.scene, {each.table for work in self.works for each in work.maker.inputs}
        )
        for keys in self.left_out.values():
            more = f", and {len(keys) - 1} like it" if len(keys) > 1 else ""
            yield (
                f"{keys[0][:_SHOWN_CHARS]}... is left out{more}: the key of a task has at most "
                f"{LONGEST_KEY} characters, and this {len(keys[0])}"
            )
        for work in self.works:
            yield from written_by_others(self.scene, work.maker)
            yield from column_warnings(self.scene, work.maker)
            yield from newer_rows_lost(self.scene, work.maker, work.placed.levels.keys())


class _ReadsOnce:
    """The partitions that tasks read, kept once for all that read the same."""

    def __init__(self, plans: Plans) -> None:
        self.all: list[Reads] = []
        self._plans = plans
        self._by_places: dict[tuple[int, range | tuple[int, ...]], int] = {}
        self._by_keys: dict[tuple[str, tuple[str, ...], bool], int] = {}

    def number(self, read: Input, partition: int) -> int:
        places = read.upstreams.places[partition]
        known = self._by_places.get((id(read), places))
        if known is not None:
            return known
        name, keys, skips = read.table.name, read.keys(partition), read.accepts_partial
        number = self._by_keys.setdefault((name, keys, skips), len(self.all))
        if number == len(self.all):
            skipped = read.skipped(partition, self._plans.of(name) or ())
            reads = Reads(table=name, partitions=keys, skips_missing=skips, skipped=skipped)
            self.all.append(reads)
        self._by_places[id(read), places] = number
        return number


def _task(entry: _Entry, reads: _ReadsOnce) -> PlannedTask:
    work, number = entry.work, entry.number
    partition = work.keys[number]
    deps = [key for each in work.above for key in each.deps(number)]
    return PlannedTask(
        key=work.placed.key(partition),
        maker=work.maker.name,
        partition=partition,
        reason=entry.verdict.reason,
        detail=entry.verdict.detail,
        inputs=tuple(reads.number(each, number) for each in work.inputs),
        deps=tuple(dict.fromkeys([*deps, *work.first.deps])) if deps else work.first.deps,
    )


def _dynamic(project: Project) -> set[str]:
    """The dynamic dimensions by which a project cuts anything; others have some of their own."""
    cuts = [*project.tables.values(), *(each.partitions for each in project.makers())]
    return {each.name for cut in cuts for each in cut if isinstance(each, Dynamic)}


def _check_names(makers: list[MakerDef]) -> None:
    """Keys of tasks must tell makers apart."""
    seen: dict[str, str] = {}
    for each in makers:
        short = short_name(each.name)
        if short in seen:
            raise Invalid(
                f"the task {short!r} is called like a table: give it a name without dots, "
                "@task('report')"
            )
        seen[short] = each.name
