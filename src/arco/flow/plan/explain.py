"""Why a partition is to be made, or is not: what a plan of it and of all above it would say."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from arco.core.errors import Invalid
from arco.flow.define.project import Project
from arco.flow.partition import MappingContext, Partitions, PartitionSet
from arco.flow.plan.explanation import (
    BLOCKED,
    SOURCE,
    UP_TO_DATE,
    WAITING,
    Affected,
    Explanation,
    Group,
    ReadNow,
)
from arco.flow.plan.fingerprints import fingerprinting
from arco.flow.plan.graph import MakerDef
from arco.flow.plan.inputs import Input
from arco.flow.plan.key import short_name, task_key
from arco.flow.plan.plan import Plan, PlannedTask, Reason
from arco.flow.plan.planner import Planning
from arco.flow.plan.runs import listed, runs
from arco.flow.plan.scene import Scene
from arco.flow.plan.selection import names_of, near
from arco.flow.state import State


def explain(
    project: Project, table: str, partition: str | None, state: State, now: datetime
) -> Explanation:
    """Why a partition of a table stands as it does; without one, how all of its partitions stand.

    `table` is a table or the name of a task, `partition` a key or a value such as `2026-01-15`.
    """
    scene = Scene(project, state, now)
    node = next((each for each in scene.graph.nodes.values() if table in names_of(each)), None)
    if node is None:
        names = {short_name(name) for each in scene.graph.nodes.values() for name in names_of(each)}
        raise Invalid(f"there is no table or task {table!r}{near(table, names)}")
    name = next(each for each in names_of(node) if table in (each, short_name(each)))
    key = _key(node.partitions, partition, scene)
    if name not in project.made_by and name in {each.name for each in project.sources}:
        return _of_source(name, key, scene)
    maker = project.made_by.get(name) or next(each for each in project.tasks if each.name == name)
    planning = Planning(scene)
    planning.add_all(scene.graph.in_order(scene.graph.upstream([maker.name], None)))
    planned = planning.plan(short_name(name), {})
    if key is None:
        return _of_all(name, maker, planned, scene)
    return _of_one(name, maker, key, planned, scene)


def _key(partitions: Partitions, said: str | None, scene: Scene) -> str | None:
    """The one partition that is meant; an asset that is one piece needs none."""
    if said is None:
        return None if partitions else ""
    chosen = partitions.parse(said, scene.now, scene.dynamic)
    if len(chosen) != 1:
        raise Invalid(f"{said!r} chooses {len(chosen)} partitions: write one of them")
    return next(iter(chosen))


def _of_source(name: str, key: str | None, scene: Scene) -> Explanation:
    table = scene.known.table(name)
    exists = table.state.table_id is not None
    return Explanation(
        table=name,
        partition=key,
        status=SOURCE if exists else WAITING,
        why="something else fills it" if exists else "there is no such table yet",
        material=None if key is None else table.material(key),
        made_at_ms=table.state.changed_at_ms if key is None else table.made_at_ms(key),
        downstream=tuple(_downstream(name, key, scene)),
    )


def _of_all(name: str, maker: MakerDef, planned: Plan, scene: Scene) -> Explanation:
    standing = _standing(maker, planned)
    by_status: dict[str, list[str]] = {}
    for key in maker.partitions.keys(scene.now, scene.dynamic):
        by_status.setdefault(standing.get(key, (UP_TO_DATE, ""))[0], []).append(key)
    groups = tuple(
        Group(status, tuple(runs(keys)), len(keys)) for status, keys in sorted(by_status.items())
    )
    count = sum(group.count for group in groups)
    return Explanation(
        table=name,
        partition=None,
        status=groups[0].status if len(groups) == 1 else "MIXED",
        why=f"{count} partitions",
        code_now=scene.project.fingerprints[maker.name],
        groups=groups,
        downstream=tuple(_downstream(name, None, scene)),
    )


def _of_one(name: str, maker: MakerDef, key: str, planned: Plan, scene: Scene) -> Explanation:
    status, why = _standing(maker, planned).get(
        key, (UP_TO_DATE, "nothing it is made from changed")
    )
    table = scene.known.table(name) if name in scene.project.made_by else scene.outputs(maker)[0]
    row = table.rows.get(key)
    made_at = table.made_at_ms(key)
    axes = maker.partitions.axes(scene.dynamic)
    inputs = scene.inputs(maker, PartitionSet.of_keys(axes, [key]))
    code = scene.project.fingerprints[maker.name]
    recorded_code = None if row is None else table.state.code_fingerprints[row]
    # A fingerprint of inputs has the code in it: with that of the record, only other data make another one.
    tell = fingerprinting(recorded_code or code, [each.table.identity for each in inputs])
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
        inputs_now=tell([each.digests[0] for each in inputs]),
        inputs=tuple(_read_now(each, made_at) for each in inputs),
        downstream=tuple(_downstream(name, key, scene)),
        maker=maker.name,
        failed=tuple(each.key for each in _failed(task_key(maker.name, key), _by_key(planned))),
    )


def _standing(maker: MakerDef, planned: Plan) -> dict[str, tuple[str, str]]:
    """What a plan says of the partitions of a maker; those that are up to date are not there."""
    held, tasks = _held_back(planned.tasks), _by_key(planned)
    found: dict[str, tuple[str, str]] = {}
    for task in planned.tasks:
        if task.maker == maker.name and task.key in held:
            found[task.partition] = (BLOCKED, f"{task.detail}, and {_holding(task.key, tasks)}")
        elif task.maker == maker.name:
            found[task.partition] = (task.reason.value, task.detail)
    prefix = task_key(maker.name, "")
    for each in planned.waiting:
        name, _, partition = each.key.partition("@")
        if name == prefix:
            found[partition] = (WAITING, f"there are no data in {', '.join(each.lacks)}")
    for blocked in planned.blocked:
        name, _, partition = blocked.key.partition("@")
        if name == prefix:
            found[partition] = (BLOCKED, ". ".join(filter(None, (blocked.cause, blocked.fix))))
    return found


def _held_back(tasks: Sequence[PlannedTask]) -> set[str]:
    """The tasks that did not fail themselves, but wait for one that did; each stands after its deps."""
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
    """The failure of a task that has failed itself, of another the nearest ones above it."""
    failed: list[PlannedTask] = []
    seen, pending = set[str](), [key] if key in tasks else []
    for each in pending:  # grows while it is walked
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
    """The nearest failures above a task."""
    failed: dict[str, list[str]] = {}
    for task in _failed(key, tasks):
        failed.setdefault(task.maker, []).append(task.partition)
    which = ", ".join(
        f"{short_name(name)} {listed(keys)}".rstrip() for name, keys in failed.items()
    )
    return f"what it is made from failed last time: {which}"


def _read_now(each: Input, made_at_ms: int | None) -> ReadNow:
    keys = each.keys(0)
    lacks = [key for key in keys if each.table.material(key) is None]
    times = [at for key in keys if (at := each.table.made_at_ms(key)) is not None]
    newest = max(times, default=None)
    return ReadNow(
        table=each.table.name,
        partitions=tuple(runs(keys)),
        lacks=tuple(runs(lacks)),
        made_at_ms=newest,
        is_newer=newest is not None and made_at_ms is not None and newest > made_at_ms,
        skips_missing=each.accepts_partial,
    )


def _downstream(table: str, key: str | None, scene: Scene) -> Iterator[Affected]:
    """What reads a partition directly; without one, who reads the table at all."""
    reads = scene.project.tables[table] if table in scene.project.tables else Partitions()
    for maker in sorted(scene.project.makers(), key=lambda each: each.name):
        found: dict[str, None] = {}
        is_reading = False
        for declared in maker.inputs:
            if declared.table == table and declared.mapping is not None:
                is_reading = True
                if key is not None:
                    reading = MappingContext(maker.partitions, reads, scene.now, scene.dynamic)
                    with scene.asking(maker, declared):
                        found.update(dict.fromkeys(declared.mapping.downstream(key, reading)))
        if found or (is_reading and key is None):
            yield Affected(maker.name, tuple(runs(found)))
