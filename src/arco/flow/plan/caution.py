"""What a plan warns of, though nothing is in its way."""

from collections.abc import Collection, Iterable, Iterator

from arco.events.partition_name import values_of
from arco.flow.define.asset import AssetDef
from arco.flow.duration import print_duration, rough_duration
from arco.flow.partition.time_dimension import TimeDimension
from arco.flow.plan.graph import MakerDef
from arco.flow.plan.key import short_name
from arco.flow.plan.runs import listed
from arco.flow.plan.scene import Scene


def late_sources(scene: Scene, read: set[str]) -> Iterator[str]:
    """Sources that are read and older than they are expected to be."""
    for source in sorted(scene.project.sources, key=lambda each: each.name):
        changed = scene.known.table(source.name).state.changed_at_ms
        if source.name not in read or source.freshness_ms is None or changed is None:
            continue
        age_ms = scene.now_ms - changed
        if age_ms > source.freshness_ms:
            yield (
                f"{short_name(source.name)} was last changed {rough_duration(age_ms)} ago, and is "
                f"expected to be at most {print_duration(source.freshness_ms)} old"
            )


def newer_rows_lost(scene: Scene, maker: MakerDef, keys: Collection[str]) -> Iterator[str]:
    """That older rows replace those of later partitions, as the keys of a merge do not know the time."""
    if not isinstance(maker, AssetDef) or maker.mode.kind != "merge" or not keys:
        return
    columns = {column.lower() for column in maker.mode.on}
    time = next((each for each in maker.partitions if isinstance(each, TimeDimension)), None)
    if time is None or time.name.lower() in columns:
        return
    shared = [each.name for each in maker.partitions if each.name.lower() in columns]
    standing = [
        key
        for key, material in scene.known.table(maker.name).by_key.items()
        if material is not None and key not in keys and key in maker.partitions
    ]
    newest: dict[tuple[str, ...], int] = {}
    for key in standing:
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
            f"{listed(key for key, _, _ in older)} will replace those of later partitions with the same "
            f"keys; make these again as well, `arco run {name} --force --partitions "
            f"{time.name}={first}..{last}`, or write merge(on=[..., {time.name!r}])"
        )


def written_by_others(scene: Scene, maker: MakerDef) -> Iterator[str]:
    """That somebody else wrote to what a pipeline makes: no partition shows whose data were changed."""
    if not isinstance(maker, AssetDef):
        return
    for table in scene.outputs(maker):
        state, made = table.state, max(filter(None, table.state.made_at_ms), default=None)
        if made is None or state.others_at_ms is None or state.others_at_ms <= made:
            continue
        name, ago = short_name(table.name), rough_duration(scene.now_ms - state.others_at_ms)
        anew = f"; `arco run {short_name(maker.name)} --force` makes it anew"
        yield (
            f"{name} was written to by {state.others or 'somebody else'} {ago} ago, after its pipeline had "
            "made it: what others change makes nothing stale"
            + ("" if maker.mode.kind == "append" else anew)
        )


def _placed(key: str, time: TimeDimension, shared: Iterable[str]) -> tuple[tuple[str, ...], int]:
    """Which rows a partition may share with others, and its place in time."""
    values = values_of(key) or {}
    return tuple(values[name] for name in shared), time.position(values[time.name])
