"""How one partition of a maker hangs on what is planned above it: its level, its deps, what it lacks."""

from collections.abc import Callable
from dataclasses import dataclass

from arco.flow.plan.inputs import Input
from arco.flow.plan.key import short_name
from arco.flow.plan.known import KnownTable
from arco.flow.plan.placed import NOWHERE, Placed, Plans
from arco.flow.plan.runs import runs


@dataclass(frozen=True)
class Above:
    """What a plan has above one input of a maker, asked by the number of the maker's partition."""

    input: Input
    placed: Placed
    level: Callable[[int], int]
    planned: Callable[[int], list[str]]

    def deps(self, number: int) -> list[str]:
        """The keys of the tasks that the partition waits for."""
        return [self.placed.key(key) for key in self.planned(number)]


def above(inputs: list[Input], plans: Plans) -> list[Above]:
    """The inputs above which something is planned, or may be while the maker itself is."""
    found: list[Above] = []
    for each in inputs:
        placed = plans.of(each.table.name)
        if placed is not None and (placed.levels or each.is_own):
            found.append(_own(each, placed) if each.is_own else _other(each, placed))
    return found


def _other(each: Input, placed: Placed) -> Above:
    keys = list(each.upstreams.keys)
    column = [placed.levels.get(key, NOWHERE) for key in keys]
    # Who reads no partition, as the first day reads of the day before, still needs the table to be there.
    begin = [next(iter(placed.levels))] if each.table.state.table_id is None else []
    lowest = placed.levels[begin[0]] if begin else NOWHERE
    return Above(
        each,
        placed,
        each.telling(column, lambda levels: max(levels, default=lowest)),
        each.telling(keys, lambda read: [key for key in read if key in placed] if read else begin),
    )


def _own(each: Input, placed: Placed) -> Above:
    """A maker that reads its own table: what is planned of it grows while it is asked."""

    def planned(number: int) -> list[str]:
        return [key for key in each.keys(number) if key in placed]

    def level(number: int) -> int:
        return max((placed.levels[key] for key in planned(number)), default=NOWHERE)

    return Above(each, placed, level, planned)


@dataclass(frozen=True)
class Before:
    """What is planned of tables that only the checks of a maker look into: all of it comes first."""

    level: int = NOWHERE
    deps: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()  # tables that are not there and that nothing in the plan makes


def before(tables: list[KnownTable], plans: Plans) -> Before:
    """How all partitions of a maker hang on the tables that its checks look into."""
    levels: dict[str, int] = {}
    lacks: list[str] = []
    for table in tables:
        placed = plans.of(table.name)
        if placed is not None and placed.levels:
            levels.update({placed.key(key): level for key, level in placed.levels.items()})
        elif table.state.table_id is None:
            lacks.append(short_name(table.name))
    return Before(max(levels.values(), default=NOWHERE), tuple(levels), tuple(lacks))


def lacking(inputs: list[Input], first: Before, plans: Plans) -> Callable[[int], list[str]]:
    """What a partition lacks, by its number: no data, and nothing in the plan that makes them."""
    asked = [tell for each in inputs if (tell := _lacking_of(each, plans)) is not None]

    def lacks(number: int) -> list[str]:
        return [*(lack for tell in asked for lack in tell(number)), *first.lacks]

    return lacks


def _lacking_of(each: Input, plans: Plans) -> Callable[[int], list[str]] | None:
    name = short_name(each.table.name)
    if not each.table.is_made and (
        each.declared.missing != "block" or each.table.state.table_id is None
    ):
        return None if each.table.state.table_id else lambda _: [name]
    planned = plans.of(each.table.name)
    placed = Placed(each.table.name) if planned is None else planned
    is_there = each.is_own or placed.levels or each.table.state.table_id is not None
    if is_there and None not in each.materials:
        return None

    def told(read: list[tuple[str, str | None]]) -> list[str]:
        if not read and not is_there:
            return [name]
        absent = [key for key, material in read if material is None and key not in placed]
        if each.accepts_partial and len(absent) < len(read):
            return []
        return [f"{name}@{run}" if run else name for run in runs(absent)]

    column = list(zip(each.upstreams.keys, each.materials, strict=True))
    if each.is_own:
        return lambda number: told([(key, each.table.material(key)) for key in each.keys(number)])
    return each.telling(column, told)
