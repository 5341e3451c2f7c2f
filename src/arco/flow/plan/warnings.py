"""Warnings of a plan: late sources, merges of older rows, and tables that other writers changed."""

from collections.abc import Collection, Iterable, Iterator

from arco.events.partition_key import parse_partition_key
from arco.flow.define.asset import AssetDef
from arco.flow.duration import print_duration, rough_duration
from arco.flow.partition.time_dimension import TimeDimension
from arco.flow.plan.context import PlanningContext
from arco.flow.plan.graph import MakerDef
from arco.flow.plan.keys import describe_keys, short_name


def late_sources(context: PlanningContext, read: set[str]) -> Iterator[str]:
    """Warn of sources that are read and older than their declared freshness."""
    for source in sorted(context.project.sources, key=lambda each: each.name):
        changed = context.tables.table(source.name).state.changed_at_ms
        if source.name not in read or source.freshness_ms is None or changed is None:
            continue
        age_ms = context.now_ms - changed
        if age_ms > source.freshness_ms:
            yield (
                f"{short_name(source.name)} was last changed {rough_duration(age_ms)} ago, and is "
                f"expected to be at most {print_duration(source.freshness_ms)} old"
            )


def newer_rows_lost(
    context: PlanningContext, maker: MakerDef, keys: Collection[str]
) -> Iterator[str]:
    """Warn if older rows replace those of later partitions because the merge keys have no time column."""
    if not isinstance(maker, AssetDef) or maker.mode.kind != "merge" or not keys:
        return
    columns = {column.lower() for column in maker.mode.on}
    time = next((each for each in maker.partitions if isinstance(each, TimeDimension)), None)
    if time is None or time.name.lower() in columns:
        return
    shared = [each.name for each in maker.partitions if each.name.lower() in columns]
    kept_keys = [
        key
        for key, material in context.tables.table(maker.name).by_key.items()
        if material is not None and key not in keys and key in maker.partitions
    ]
    newest: dict[tuple[str, ...], int] = {}
    for key in kept_keys:
        rows, at = _placed(key, time, shared)
        newest[rows] = max(at, newest.get(rows, at))
    placed = [(key, *_placed(key, time, shared)) for key in keys]
    older = [(key, rows, at) for key, rows, at in placed if at < newest.get(rows, at)]
    if older:
        name = short_name(maker.name)
        first = time.value(min(at for _, _, at in older))
        last = time.value(max(newest[rows] for _, rows, _ in older))
        yield (
            f"{name} merges without {time.name!r} among its keys: the rows of "
            f"{describe_keys(key for key, _, _ in older)} will replace those of later partitions with the "
            f"same keys; make these again as well, `arco run {name} --force --partitions "
            f"{time.name}={first}..{last}`, or write merge(on=[..., {time.name!r}])"
        )


def written_by_others(context: PlanningContext, maker: MakerDef) -> Iterator[str]:
    """Warn if another writer changed a table of the pipeline: no partition becomes stale by that."""
    if not isinstance(maker, AssetDef):
        return
    for table in context.outputs(maker):
        state, made = table.state, max(filter(None, table.state.made_at_ms), default=None)
        if made is None or state.others_at_ms is None or state.others_at_ms <= made:
            continue
        name, ago = short_name(table.name), rough_duration(context.now_ms - state.others_at_ms)
        fix = f"; `arco run {short_name(maker.name)} --force` makes it again"
        yield (
            f"{name} was changed by {state.others or 'another writer'} {ago} ago, after the pipeline made "
            "it: changes of other writers make nothing stale"
            + ("" if maker.mode.kind == "append" else fix)
        )


def _placed(key: str, time: TimeDimension, shared: Iterable[str]) -> tuple[tuple[str, ...], int]:
    """The values that a partition shares with other partitions, and its position in time."""
    values = parse_partition_key(key) or {}
    return tuple(values[name] for name in shared), time.position(values[time.name])
