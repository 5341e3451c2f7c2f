"""Keys of tasks: `silver.orders@ds=2026-01-10`, short enough to be typed and unlike any other in a run.

The catalog `default` is left out; a task without partitions is the name alone. `@` and `%` in a name are
written as in a URL, so that the first `@` is always the border.
"""

from typing import NamedTuple

from arco.core.errors import Invalid
from arco.flow.define.name import DEFAULT_CATALOG, three_levels

LONGEST_KEY = 255  # or no event could name the task

_PREFIX = f"{DEFAULT_CATALOG}."


class TaskName(NamedTuple):
    """What a key says: the maker by its full name, and the partition, '' if there is but one."""

    maker: str
    partition: str


def task_key(maker: str, partition: str) -> str:
    """The key of a task; `maker` is the full name of an asset or the name of a task of the project."""
    name = short_name(maker).replace("%", "%25").replace("@", "%40")
    return f"{name}@{partition}" if partition else name


def read_key(key: str) -> TaskName:
    """What a key says; the inverse of `task_key`."""
    name, _, partition = key.partition("@")
    return TaskName(_long_name(name.replace("%40", "@").replace("%25", "%")), partition)


def short_name(maker: str) -> str:
    """A full name as people write it, without the catalog `default`."""
    short = maker.removeprefix(_PREFIX)
    return short if _long_name(short) == maker else maker


def _long_name(name: str) -> str:
    """A table's name has two levels or more; any other name is the one of a task."""
    try:
        return three_levels(name)
    except Invalid:
        return name
