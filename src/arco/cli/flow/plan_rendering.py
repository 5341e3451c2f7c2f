"""A plan as people read it: what would be made, why, and how much of it; ranges, not a thousand lines."""

from collections import Counter
from collections.abc import Iterator

from arco.cli.flow.text_format import count_of, list_some, shorten
from arco.flow.plan.keys import key_ranges, read_key, short_name
from arco.flow.plan.plan import BlockedPartition, Plan, PlannedTask, Reason

HEADINGS = ("ASSET", "TASKS", "PARTITIONS", "REASON", "WHY")
ALL_HEADINGS = ("TASK", "REASON", "WHY")

_WHY = 100  # characters
_MAX_WAITING = 8


def grouped_rows(plan: Plan) -> list[tuple[str, ...]]:
    """A line for each asset and reason, in the order in which they will be made."""
    groups: dict[tuple[str, Reason], list[PlannedTask]] = {}
    for task in plan.tasks:
        groups.setdefault((task.maker, task.reason), []).append(task)
    return [
        (
            short_name(maker),
            f"{len(tasks):,}",
            list_some(key_ranges(task.partition for task in tasks if task.partition)),
            reason,
            _why(tasks),
        )
        for (maker, reason), tasks in groups.items()
    ]


def all_rows(plan: Plan) -> Iterator[tuple[str, ...]]:
    """A line for each task."""
    return ((task.key, task.reason, task.detail) for task in plan.tasks)


def headline(plan: Plan) -> str:
    """One sentence: how much there is to do."""
    if not plan.tasks and not plan.waiting and not plan.blocked:
        up_to_date = (
            f": {count_of(plan.up_to_date, 'partition')} up to date" if plan.up_to_date else ""
        )
        return f"Nothing to do{up_to_date}."
    parts = [f"{count_of(len(plan.tasks), 'task')} to do"]
    if plan.up_to_date:
        parts.append(f"{plan.up_to_date:,} up to date")
    if plan.waiting:
        parts.append(f"{len(plan.waiting):,} cannot be made")
    if plan.blocked:
        parts.append(f"{len(plan.blocked):,} blocked")
    return f"{parts[0]}{_of(plan)}" + "".join(f", {each}" for each in parts[1:]) + "."


def _of(plan: Plan) -> str:
    """Whose tasks these are: of assets, and of what a project itself calls a task."""
    planned = {task.maker for task in plan.tasks}
    kinds = Counter(
        "@task" if each.kind == "task" else "asset" for each in plan.makers if each.name in planned
    )
    parts = [count_of(kinds[kind], kind) for kind in ("asset", "@task") if kinds[kind]]
    return f" of {' and '.join(parts)}" if parts else ""


def waiting_lines(plan: Plan) -> Iterator[str]:
    """What was asked for and cannot be made, with what it lacks; many alike in one line."""
    groups: dict[tuple[str, str], list[str]] = {}
    for waiting in plan.waiting:
        maker, partition = read_key(waiting.key)
        lacks = waiting.lacks[0] if waiting.lacks else ""
        groups.setdefault((maker, read_key(lacks).maker), []).append(partition)
    for (maker, lacks), keys in list(groups.items())[:_MAX_WAITING]:
        partitions = list_some(key_ranges(key for key in keys if key))
        name = f"{short_name(maker)} {partitions}".rstrip()
        yield f"{name}: cannot be made, as {short_name(lacks)} lacks the data it reads"
    if len(groups) > _MAX_WAITING:
        yield f"and {len(groups) - _MAX_WAITING} more"


def blocked_lines(plan: Plan) -> Iterator[str]:
    """What is out of date and is not made, with the cause and what to do; one line per asset and reason."""
    groups: dict[tuple[str, str], list[BlockedPartition]] = {}
    for partition in plan.blocked:
        groups.setdefault((read_key(partition.key).maker, partition.reason), []).append(partition)
    for (maker, _), blocked in list(groups.items())[:_MAX_WAITING]:
        partitions = list_some(
            key_ranges(key for each in blocked if (key := read_key(each.key).partition))
        )
        name = f"{short_name(maker)} {partitions}".rstrip()
        first = blocked[0]
        more = " (and similar)" if len({each.cause for each in blocked}) > 1 else ""
        fix = f". {first.fix}" if first.fix else ""
        yield f"{name}: blocked ({first.reason}): {first.cause}{more}{fix}"
    if len(groups) > _MAX_WAITING:
        yield f"and {len(groups) - _MAX_WAITING} more assets are blocked"


def appended_again_lines(plan: Plan) -> Iterator[str]:
    """The planned tasks that add rows which their tables have already; one line per asset."""
    planned = {task.key: task for task in plan.tasks}
    tables = {
        each.name: [short_name(target.table) for target in each.targets] for each in plan.makers
    }
    groups: dict[str, list[str]] = {}
    for key in plan.append_again:
        if (task := planned.get(key)) is not None:
            groups.setdefault(task.maker, []).append(task.partition)
    for maker, keys in groups.items():
        partitions = list_some(key_ranges(key for key in keys if key))
        count = f" of {count_of(len(keys), 'partition')}" if partitions else ""
        several = f", in those of {', '.join(tables[maker])} that have them" * (
            len(tables[maker]) > 1
        )
        yield (
            f"{short_name(maker)} {partitions}".rstrip()
            + f": --append-again adds the rows{count} a second time{several}; the rows that were "
            "appended before stay"
        )


def _why(tasks: list[PlannedTask]) -> str:
    details = dict.fromkeys(task.detail for task in tasks)
    first = next(iter(details))
    return shorten(first, _WHY) if len(details) == 1 else f"{shorten(first, _WHY)} ..."
