"""Values as they enter a fingerprint: written alike on each machine, whatever the order of a set."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import date, time, timedelta
from enum import Enum
from pathlib import PurePath
from typing import Any
from zoneinfo import ZoneInfo

from arco.flow.define.normal import Plain

_PARTITION = "arco.flow.partition"
# Fingerprints are stored, so a type of Arco that was moved or renamed keeps the name that it had in them.
_RECORDED_TYPES = {
    f"{_PARTITION}.calendar.Hourly": f"{_PARTITION}.hourly.Hourly",
    f"{_PARTITION}.dimension.Static": f"{_PARTITION}.listed.Static",
    f"{_PARTITION}.dimension.Dynamic": f"{_PARTITION}.listed.Dynamic",
    f"{_PARTITION}.mapping.ShiftMapping": f"{_PARTITION}.shift.Shift",
    f"{_PARTITION}.mapping._Custom": f"{_PARTITION}.custom._Custom",
    f"{_PARTITION}.mapping._Everything": f"{_PARTITION}.whole._Everything",
    f"{_PARTITION}.mapping._Latest": f"{_PARTITION}.whole._Latest",
    f"{_PARTITION}.partitions.Partitions": f"{_PARTITION}.product.Partitions",
}
_SIMPLE = (str, bytes, int, float, complex, date, time, timedelta, type(None), type(...))


@dataclass
class Written:
    """Values written down, and the functions met on the way, whose code counts as well."""

    functions: list[Callable[..., object]] = field(default_factory=list)
    _open: set[int] = field(default_factory=set)

    def value(self, value: object) -> Plain:
        """A value as nested lists of texts; of a thing that is unknown here only its type."""
        if isinstance(value, Enum):
            return [_type(value), value.name]
        if isinstance(value, _SIMPLE):
            return f"{type(value).__name__}:{value!r}"
        if isinstance(value, ZoneInfo):
            return ["zone", value.key]
        if isinstance(value, PurePath):
            return ["path", value.as_posix()]
        if id(value) in self._open:  # a list that holds itself
            return ["again"]
        self._open.add(id(value))
        try:
            return self._several(value)
        finally:
            self._open.discard(id(value))

    def _several(self, value: object) -> Plain:
        if isinstance(value, list | tuple):
            return [type(value).__name__, *map(self.value, value)]
        if isinstance(value, set | frozenset):
            return ["set", *sorted(map(self.value, value), key=repr)]
        if isinstance(value, dict):
            return ["dict", *([self.value(key), self.value(each)] for key, each in value.items())]
        return self._thing(value)

    def _thing(self, value: object) -> Plain:
        if is_dataclass(value) and not isinstance(value, type):
            return [_type(value), *(self._field(value, each.name) for each in fields(value))]
        if isinstance(value, functools.partial):
            return [
                "partial",
                self.value(value.func),
                *map(self.value, (value.args, value.keywords)),
            ]
        if inspect.isroutine(value) or isinstance(value, type):
            return self.function(value)
        return ["thing", _type(value)]

    def function(self, function: Callable[..., object]) -> Plain:
        """A function by its place among those met, with what it holds from where it was made."""
        plain_function: Any = inspect.unwrap(function)
        if plain_function in self.functions:
            return ["function", str(self.functions.index(plain_function))]
        number = len(self.functions)
        self.functions.append(plain_function)
        held = [_held(cell) for cell in getattr(plain_function, "__closure__", None) or ()]
        return ["function", str(number), *map(self.value, held)]

    def _field(self, value: object, name: str) -> Plain:
        return [name, self.value(getattr(value, name))]


def _held(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # it is filled only later: there is nothing to hold yet
        return None


def _type(value: object) -> str:
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    return _RECORDED_TYPES.get(name, name)
