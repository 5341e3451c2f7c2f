"""Why a plan does not make an asset at all: its table cannot take what the definition would write.

Another format and another partitioning follow from the definition and the table. That columns do not fit is
known only from the last attempt: it counts as long as neither code, inputs nor table have changed since.
"""

from collections.abc import Iterator

from arco.core.errors import Invalid
from arco.events.partition_name import values_of
from arco.flow.define.asset import AssetDef
from arco.flow.partition import Partitions
from arco.flow.partition.time_dimension import TimeDimension
from arco.flow.plan.blocks import Block, BlockReason
from arco.flow.plan.graph import MakerDef
from arco.flow.plan.key import short_name
from arco.flow.plan.known import KnownTable
from arco.flow.plan.placed import Plans
from arco.flow.plan.scene import Scene
from arco.flow.state import ColumnChange, LastAttempt

_FAILED = "FAILED"
_ICEBERG = "ICEBERG"
_KEEPS_ROWS = ("replace_partition", "append")  # of other partitions, which may be cut otherwise


def block_of_table(
    scene: Scene, maker: MakerDef, plans: Plans, *, is_forced: bool = False
) -> Block | None:
    """Why no partition of an asset can be made; None if nothing is known to be in the way.

    What the last attempt has met may be different by now in a way that is not recorded: with `is_forced`
    it is tried again.
    """
    if not isinstance(maker, AssetDef):
        return None
    tables = [table for table in scene.outputs(maker) if table.state.table_id is not None]
    for table in tables:
        found = _other_format(maker, table) or _other_partitioning(maker, table)
        if found is None and not is_forced:
            found = _other_columns(scene, maker, table, plans)
        if found is not None:
            return found
    return None


def _other_format(maker: AssetDef, table: KnownTable) -> Block | None:
    there, name = table.state.format, short_name(table.name)
    if there is None or there.lower() == maker.format:
        return None
    return Block(
        BlockReason.FORMAT,
        f"{name} is a table of the format {there.lower()}, and the asset declares format={maker.format!r}",
        f"Declare format={there.lower()!r}, write to another table, or drop this one with its rows: "
        f"`arco table drop {name}`",
    )


def _other_partitioning(maker: AssetDef, table: KnownTable) -> Block | None:
    if maker.mode.kind not in _KEEPS_ROWS:
        return None
    if table.state.is_source and table.state.format == _ICEBERG:
        return None  # others may cut it by more than values of columns
    made = (key for key, material in table.by_key.items() if material is not None)
    key = next((each for each in made if not _has_shape(each, maker.partitions)), None)
    if key is None:
        return None
    name = short_name(table.name)
    return Block(
        BlockReason.PARTITIONING,
        f"{name} has {_partition(key)}, and the asset is partitioned by {_described(maker.partitions)}: "
        "old rows would stay beside the new ones",
        f"Write to another table, or remove the rows first: `arco partitions clear {name} all` or "
        f"`arco table drop {name}`",
    )


def _has_shape(key: str, partitions: Partitions) -> bool:
    """Whether a key could be one of these partitions, at another time or with another value."""
    values = values_of(key) if key else {}
    if values is None or set(values) != set(partitions.names):
        return False
    for each in partitions:
        if isinstance(each, TimeDimension):
            try:
                each.position(values[each.name])
            except Invalid:
                return False
    return True


def _partition(key: str) -> str:
    return f"the partition {key}" if key else "rows without partitions"


def _described(partitions: Partitions) -> str:
    said = [f"{type(each).__name__}({each.name!r})" for each in partitions]
    return " and ".join(said) or "nothing"


def _other_columns(scene: Scene, maker: AssetDef, table: KnownTable, plans: Plans) -> Block | None:
    last = table.state.last_attempt
    if last is None or not _still_counts(scene, maker, table, last, plans):
        return None
    name = short_name(table.name)
    retyped = [each for each in last.changes if each.before is not None and each.after is not None]
    missing = [each for each in last.changes if each.after is None]
    if retyped:
        return Block(
            BlockReason.COLUMN_TYPE,
            f"the last attempt (run {last.run_id}) with this code returned columns of other types than "
            f"{name} has: {', '.join(map(shown, retyped))}",
            f"Cast them, write to another table, or remove the rows first: `arco partitions clear {name} "
            f"all` or `arco table drop {name}`; `--force` tries it again",
        )
    if missing and maker.on_missing_column == "fail":
        return Block(
            BlockReason.MISSING_COLUMN,
            f"the last attempt (run {last.run_id}) with this code did not return columns that {name} has: "
            f"{', '.join(map(shown, missing))}",
            "Return them, or declare on_missing_column='null' or 'drop' on the asset; `--force` tries it "
            "again",
        )
    return None


def _still_counts(
    scene: Scene, maker: AssetDef, table: KnownTable, last: LastAttempt, plans: Plans
) -> bool:
    """Whether another attempt would meet the same: nothing that decides its columns has changed since."""
    if last.status != _FAILED or last.code_fingerprint != scene.project.fingerprints[maker.name]:
        return False
    if all(material is None for material in table.by_key.values()):
        return False  # a table without rows takes the columns of the result
    for declared in maker.inputs:
        placed = plans.of(declared.table)
        is_planned = placed is not None and bool(placed.levels)
        changed_at = scene.known.table(declared.table).state.changed_at_ms
        if is_planned or (changed_at is not None and changed_at > last.ended_at_ms):
            return False
    changed_at = table.state.changed_at_ms
    return changed_at is None or changed_at <= last.ended_at_ms


def shown(change: ColumnChange) -> str:
    """A change of a column in a few words."""
    if change.before is None:
        return f"{change.column} {change.after} added"
    if change.after is None:
        return f"{change.column} {change.before} missing"
    return f"{change.column} {change.before} -> {change.after}"


def column_warnings(scene: Scene, maker: MakerDef) -> Iterator[str]:
    """What the last attempt for each table of an asset has met in columns."""
    if not isinstance(maker, AssetDef):
        return
    for table in scene.outputs(maker):
        last = table.state.last_attempt
        if last is not None:
            same = last.code_fingerprint == scene.project.fingerprints[maker.name]
            code = "this code" if same else "other code than now"
            yield (
                f"{short_name(table.name)}: columns that the last attempt met ({last.status}, run "
                f"{last.run_id}, {code}): {', '.join(map(shown, last.changes))}"
            )
