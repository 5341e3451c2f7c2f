"""Arco: a lakehouse catalog and orchestrator with no database.

Promises: this package exports the API for pipelines, `from arco import asset, checks, table, Daily`. Names
are imported at their first use, so that importing Arco is cheap. Never imports Spark. May import
`arco.flow.define` and `arco.flow.partition`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arco.flow.define import (
        Context,
        Result,
        Retry,
        asset,
        check,
        checks,
        merge,
        source,
        sql,
        table,
        task,
    )
    from arco.flow.partition import (
        Daily,
        Dynamic,
        Hourly,
        Monthly,
        Static,
        Weekly,
        all_partitions,
        custom,
        identity,
        latest,
        offset,
        roll_up,
        window,
    )

__version__ = "0.1.0"

__all__ = [
    "Context",
    "Daily",
    "Dynamic",
    "Hourly",
    "Monthly",
    "Result",
    "Retry",
    "Static",
    "Weekly",
    "all_partitions",
    "asset",
    "check",
    "checks",
    "custom",
    "identity",
    "latest",
    "merge",
    "offset",
    "roll_up",
    "source",
    "sql",
    "table",
    "task",
    "window",
]

_OF_PARTITIONS = frozenset(
    {
        *("Daily", "Dynamic", "Hourly", "Monthly", "Static", "Weekly"),
        *("all_partitions", "custom", "identity", "latest", "offset", "roll_up", "window"),
    }
)


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'arco' has no attribute {name!r}")
    if name in _OF_PARTITIONS:
        module = import_module("arco.flow.partition")
    else:
        module = import_module("arco.flow.define")
    globals()[name] = value = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
