"""Blocks, why a plan does not make a partition that is out of date, and warnings about what it does make.

`append` adds rows. Making an appended partition a second time, because its code or inputs changed or the
user forces it, would add its rows twice. So it is blocked, unless the user passes --append-again or the
asset declares on_change="replace".

All partitions of an asset are blocked if its table cannot take what the definition would write. A different
format or partitioning is known from the definition and the table. That columns do not fit is known from the
last attempt; it counts as long as neither code, inputs nor table have changed since.
"""

from collections.abc import Collection, Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple

from arco.core.duration import print_duration, rough_duration
from arco.core.errors import Invalid
from arco.events.partition_key import parse_partition_key
from arco.flow.define.asset import AssetDef
from arco.flow.partition import Partitions
from arco.flow.partition.time_dimension import TimeDimension
from arco.flow.plan.context import PlanningContext, TableIndex
from arco.flow.plan.graph import MakerDef
from arco.flow.plan.keys import describe_keys, short_name
from arco.flow.plan.plan import Reason
from arco.flow.plan.staleness import Staleness, StalenessCheck
from arco.flow.plan.table_state import ColumnChange, LastAttempt
from arco.flow.plan.upstream import PlannedTables

_SHOWN_FILES = 3
_MADE_UNCHANGED = frozenset(
    {Reason.FORCED, Reason.FRESHNESS}
)  # even if code and inputs are current


class BlockReason(StrEnum):
    """Why a partition is blocked, in one word."""

    APPENDED = "APPENDED"  # its rows are in the table and would be added a second time
    FORMAT = "FORMAT"  # the table has another format
    PARTITIONING = "PARTITIONING"  # the table has other dimensions
    COLUMN_TYPE = "COLUMN_TYPE"  # the last attempt returned a column of another type
    MISSING_COLUMN = "MISSING_COLUMN"  # the last attempt lacked a column of the table


class Block(NamedTuple):
    """Why a partition is not made: a reason, a sentence, and what the user can do."""

    reason: BlockReason
    cause: str
    fix: str = ""


def find_append_block(
    maker: MakerDef, check: StalenessCheck, number: int, key: str, staleness: Staleness
) -> Block | None:
    """The block of a partition whose rows would be appended twice; None if it can be made."""
    if not isinstance(maker, AssetDef) or maker.mode.kind != "append":
        return None
    tables = _appended_again(check, number, key, staleness)
    if not tables:
        return None
    if maker.mode.on_change == "replace":
        return _block_by_files(tables, key, staleness)
    append_again = "use `arco run` with --append-again to add them a second time"
    if maker.partitions:
        fix = f'To replace its rows, declare on_change="replace" on the asset; or {append_again}'
    else:
        name = short_name(maker.name)
        fix = f"To start over, drop the table (`arco table drop {name}`); or {append_again}"
    return Block(
        BlockReason.APPENDED,
        f"it was appended before, and making it again would add its rows a second time "
        f"({staleness.detail})",
        fix,
    )


def _appended_again(
    check: StalenessCheck, number: int, key: str, staleness: Staleness
) -> list[TableIndex]:
    """The outputs that hold rows of the partition and would get them a second time.

    A run skips an output that is current: after a failure between several outputs, rows are added only
    where they are missing. Rows without a record may come from an attempt that published and crashed: the
    run inspects the table version, and refuses to add rows if other code or data made them.
    """
    made_anyway = staleness.reason in _MADE_UNCHANGED and all(
        table.by_key.get(key) is not None and check.is_current(table, number, key)
        for table in check.outputs
    )
    return [
        table
        for table in check.outputs
        if table.by_key.get(key) is not None
        and table.state.code_fingerprints[table.rows[key]] is not None
        and (made_anyway or not check.is_current(table, number, key))
    ]


def _block_by_files(tables: list[TableIndex], key: str, staleness: Staleness) -> Block | None:
    """The block of a partition with files of other writers, which replacing would delete."""
    files = [path for table in tables for path in table.state.foreign_files.get(key, ())]
    if not files:
        return None
    return Block(
        BlockReason.APPENDED,
        f"its rows would be replaced ({staleness.detail}), but the partition also holds files that no run "
        f"of this pipeline added: {describe_files(files)}",
        "Remove the rows of these files, or use `arco run` with --append-again to add the new rows as well",
    )


def describe_files(files: list[str]) -> str:
    """A few paths as part of a sentence."""
    shown = ", ".join(files[:_SHOWN_FILES])
    return f"{shown} and {len(files) - _SHOWN_FILES} more" if len(files) > _SHOWN_FILES else shown


_FAILED = "FAILED"
_ICEBERG = "ICEBERG"
_KEEPS_ROWS = ("replace_partition", "append")  # of other partitions, perhaps with other dimensions


def find_table_block(
    context: PlanningContext,
    maker: MakerDef,
    planned_tables: PlannedTables,
    *,
    is_forced: bool = False,
) -> Block | None:
    """Why no partition of an asset can be made; None if no obstacle is known.

    What made the last attempt fail may have changed without a record, so `is_forced` ignores it.
    """
    if not isinstance(maker, AssetDef):
        return None
    tables = [table for table in context.outputs(maker) if table.state.table_id is not None]
    for table in tables:
        block = _other_format(maker, table) or _other_partitioning(maker, table)
        if block is None and not is_forced:
            block = _other_columns(context, maker, table, planned_tables)
        if block is not None:
            return block
    return None


def _other_format(maker: AssetDef, table: TableIndex) -> Block | None:
    name, table_format = short_name(table.name), (table.state.format or "").lower()
    if table_format in ("", maker.format):
        return None
    return Block(
        BlockReason.FORMAT,
        f"{name} is a table of the format {table_format}, and the asset declares format={maker.format!r}",
        f"Declare format={table_format!r}, write to another table, or drop this one with its rows: "
        f"`arco table drop {name}`",
    )


def _other_partitioning(maker: AssetDef, table: TableIndex) -> Block | None:
    if maker.mode.kind not in _KEEPS_ROWS:
        return None
    if table.state.is_source and table.state.format == _ICEBERG:
        return None  # other writers may partition it by transforms, not only by column values
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
    """Whether a key has the dimensions of these partitions, perhaps with other values."""
    values = parse_partition_key(key) if key else {}
    if values is None or set(values) != set(partitions.names):
        return False
    for dimension in partitions:
        if isinstance(dimension, TimeDimension):
            try:
                dimension.position(values[dimension.name])
            except Invalid:
                return False
    return True


def _partition(key: str) -> str:
    return f"the partition {key}" if key else "rows without partitions"


def _described(partitions: Partitions) -> str:
    dimensions = [f"{type(each).__name__}({each.name!r})" for each in partitions]
    return " and ".join(dimensions) or "nothing"


def _other_columns(
    context: PlanningContext, maker: AssetDef, table: TableIndex, planned_tables: PlannedTables
) -> Block | None:
    attempt = table.state.last_attempt
    if attempt is None or not _is_last_attempt_valid(
        context, maker, table, attempt, planned_tables
    ):
        return None
    name = short_name(table.name)
    changes = attempt.changes
    retyped = [each for each in changes if each.before is not None and each.after is not None]
    missing = [each for each in changes if each.after is None]
    if retyped:
        return Block(
            BlockReason.COLUMN_TYPE,
            f"the last attempt (run {attempt.run_id}) with this code returned columns of other types than "
            f"{name} has: {', '.join(map(describe_column_change, retyped))}",
            f"Cast them, write to another table, or remove the rows first: `arco partitions clear {name} "
            f"all` or `arco table drop {name}`; `--force` tries it again",
        )
    if missing and maker.on_missing_column == "fail":
        return Block(
            BlockReason.MISSING_COLUMN,
            f"the last attempt (run {attempt.run_id}) with this code did not return columns that {name} "
            f"has: {', '.join(map(describe_column_change, missing))}",
            "Return them, or declare on_missing_column='null' or 'drop' on the asset; `--force` tries it "
            "again",
        )
    return None


def _is_last_attempt_valid(
    context: PlanningContext,
    maker: AssetDef,
    table: TableIndex,
    attempt: LastAttempt,
    planned_tables: PlannedTables,
) -> bool:
    """Whether another attempt would fail the same way: nothing that decides its columns has changed."""
    if (
        attempt.status != _FAILED
        or attempt.code_fingerprint != context.project.fingerprints[maker.name]
    ):
        return False
    if all(material is None for material in table.by_key.values()):
        return False  # an empty table gets the columns of the result
    for declared in maker.inputs:
        planned = planned_tables.of(declared.table)
        is_planned = planned is not None and bool(planned.levels)
        changed_at = context.tables.table(declared.table).state.changed_at_ms
        if is_planned or (changed_at is not None and changed_at > attempt.ended_at_ms):
            return False
    changed_at = table.state.changed_at_ms
    return changed_at is None or changed_at <= attempt.ended_at_ms


def describe_column_change(change: ColumnChange) -> str:
    """A column change in a few words."""
    if change.before is None:
        return f"{change.column} {change.after} added"
    if change.after is None:
        return f"{change.column} {change.before} missing"
    return f"{change.column} {change.before} -> {change.after}"


def column_warnings(context: PlanningContext, maker: MakerDef) -> Iterator[str]:
    """Warn of the column differences that the last attempt found in each table of an asset."""
    if not isinstance(maker, AssetDef):
        return
    for table in context.outputs(maker):
        attempt = table.state.last_attempt
        if attempt is not None:
            same = attempt.code_fingerprint == context.project.fingerprints[maker.name]
            code = "this code" if same else "other code than now"
            yield (
                f"{short_name(table.name)}: column changes in the last attempt ({attempt.status}, run "
                f"{attempt.run_id}, {code}): {', '.join(map(describe_column_change, attempt.changes))}"
            )


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
        rows, at = _time_position(key, time, shared)
        newest[rows] = max(at, newest.get(rows, at))
    positions = [(key, *_time_position(key, time, shared)) for key in keys]
    older = [(key, rows, at) for key, rows, at in positions if at < newest.get(rows, at)]
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


def _time_position(
    key: str, time: TimeDimension, shared: Iterable[str]
) -> tuple[tuple[str, ...], int]:
    """The values that a partition shares with other partitions, and its position in time."""
    values = parse_partition_key(key) or {}
    return tuple(values[name] for name in shared), time.position(values[time.name])
