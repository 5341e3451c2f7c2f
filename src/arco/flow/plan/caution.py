"""What a plan warns of, though nothing is in its way."""

from collections.abc import Iterable, Iterator

from arco.flow.define.asset import AssetDef
from arco.flow.duration import print_duration, rough_duration
from arco.flow.plan.graph import MakerDef
from arco.flow.plan.key import short_name
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


def rows_again(scene: Scene, maker: MakerDef, keys: Iterable[str]) -> Iterator[str]:
    """That partitions which have rows get them once more: a change of code cannot take rows back."""
    if not isinstance(maker, AssetDef) or maker.mode.kind != "append":
        return
    tables = scene.outputs(maker)
    again = sum(any(table.by_key.get(key) is not None for table in tables) for key in keys)
    if again:
        name = short_name(maker.name)
        many = "a partition that has" if again == 1 else f"{again} partitions that have"
        yield (
            f"{name} appends: {many} rows will get them once more, beside the old ones; to begin anew, "
            f"drop it first: `arco table drop {name}`"
        )
