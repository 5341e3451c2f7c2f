"""What a plan makes upstream of a partition: the level and deps of its task, and its missing inputs."""

from collections.abc import Callable
from dataclasses import dataclass, field

from arco.flow.plan.context import InputPartitions, TableIndex
from arco.flow.plan.keys import key_ranges, short_name, task_key

NO_LEVEL = -1


@dataclass(frozen=True)
class PlannedPartitions:
    """The planned partitions of one maker with the level of each; level 0 waits for nothing."""

    maker: str
    levels: dict[str, int] = field(default_factory=dict)
    prefix: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "prefix", task_key(self.maker, ""))

    def key(self, partition: str) -> str:
        """The key of a task of this maker."""
        return f"{self.prefix}@{partition}" if partition else self.prefix

    def __contains__(self, partition: object) -> bool:
        return partition in self.levels


class PlannedTables:
    """The planned partitions by the table that they fill."""

    def __init__(self) -> None:
        self._by_table: dict[str, PlannedPartitions] = {}

    def of(self, table: str) -> PlannedPartitions | None:
        """What is planned for a table."""
        return self._by_table.get(table)

    def add(self, planned: PlannedPartitions, tables: list[str]) -> None:
        """Count what is planned, now and later, for these tables."""
        self._by_table.update(dict.fromkeys(tables, planned))


@dataclass(frozen=True)
class Upstream:
    """What the plan makes of one input, by the number of the partition that reads it."""

    input: InputPartitions
    planned: PlannedPartitions
    level: Callable[[int], int]
    planned_keys: Callable[[int], list[str]]

    def deps(self, number: int) -> list[str]:
        """The keys of the tasks that the partition waits for."""
        return [self.planned.key(key) for key in self.planned_keys(number)]


def find_upstreams(inputs: list[InputPartitions], tables: PlannedTables) -> list[Upstream]:
    """The inputs that the plan makes partitions of, or may still, if the maker reads its own table."""
    upstreams: list[Upstream] = []
    for read in inputs:
        planned = tables.of(read.table.name)
        if planned is not None and (planned.levels or read.is_own):
            upstreams.append(
                _own_upstream(read, planned) if read.is_own else _other_upstream(read, planned)
            )
    return upstreams


def _other_upstream(each: InputPartitions, planned: PlannedPartitions) -> Upstream:
    keys = list(each.upstreams.keys)
    column = [planned.levels.get(key, NO_LEVEL) for key in keys]
    # A partition that reads nothing, as the first day with offset=-1, still needs the table to exist.
    creating = [next(iter(planned.levels))] if each.table.state.table_id is None else []
    lowest = planned.levels[creating[0]] if creating else NO_LEVEL
    return Upstream(
        each,
        planned,
        each.per_partition(column, lambda levels: max(levels, default=lowest)),
        each.per_partition(
            keys, lambda read: [key for key in read if key in planned] if read else creating
        ),
    )


def _own_upstream(each: InputPartitions, planned: PlannedPartitions) -> Upstream:
    """The upstream of a maker that reads its own table, whose planned partitions still grow."""

    def planned_keys(number: int) -> list[str]:
        return [key for key in each.keys(number) if key in planned]

    def level(number: int) -> int:
        return max((planned.levels[key] for key in planned_keys(number)), default=NO_LEVEL)

    return Upstream(each, planned, level, planned_keys)


@dataclass(frozen=True)
class CheckUpstreams:
    """What the plan makes of the tables that only the checks of a maker read: all of it comes first."""

    level: int = NO_LEVEL
    deps: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()  # tables that do not exist and that the plan does not make


def find_check_upstreams(tables: list[TableIndex], planned_tables: PlannedTables) -> CheckUpstreams:
    """What all partitions of a maker wait for because its checks read these tables."""
    levels: dict[str, int] = {}
    missing: list[str] = []
    for table in tables:
        planned = planned_tables.of(table.name)
        if planned is not None and planned.levels:
            levels.update({planned.key(key): level for key, level in planned.levels.items()})
        elif table.state.table_id is None:
            missing.append(short_name(table.name))
    return CheckUpstreams(max(levels.values(), default=NO_LEVEL), tuple(levels), tuple(missing))


def missing_inputs(
    inputs: list[InputPartitions], checks: CheckUpstreams, tables: PlannedTables
) -> Callable[[int], list[str]]:
    """A function from the number of a partition to its inputs without data that the plan does not make."""
    by_input = [missing for each in inputs if (missing := _missing_of(each, tables)) is not None]

    def missing_of(number: int) -> list[str]:
        return [*(name for missing in by_input for name in missing(number)), *checks.missing]

    return missing_of


def _missing_of(each: InputPartitions, tables: PlannedTables) -> Callable[[int], list[str]] | None:
    """The same for one input; None if nothing of it can be missing."""
    name = short_name(each.table.name)
    exists = each.table.state.table_id is not None
    if not each.table.is_made and (each.declared.missing != "block" or not exists):
        return None if exists else lambda _: [name]
    planned = tables.of(each.table.name) or PlannedPartitions(each.table.name)
    will_exist = each.is_own or planned.levels or exists
    if will_exist and None not in each.materials:
        return None

    def missing(read: list[tuple[str, str | None]]) -> list[str]:
        if not read and not will_exist:
            return [name]
        absent = [key for key, material in read if material is None and key not in planned]
        if each.skips_missing and len(absent) < len(read):
            return []
        return [f"{name}@{keys}" if keys else name for keys in key_ranges(absent)]

    if each.is_own:
        return lambda number: missing(
            [(key, each.table.material(key)) for key in each.keys(number)]
        )
    return each.per_partition(list(zip(each.upstreams.keys, each.materials, strict=True)), missing)
