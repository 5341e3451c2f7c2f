"""Inputs: which table a parameter of a function stands for, and which of its partitions are read."""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from arco.core.errors import Invalid
from arco.flow.define.collect import complain, here
from arco.flow.define.name import full_name
from arco.flow.define.source import SourceDef
from arco.flow.define.where import NOWHERE, SourceLine
from arco.flow.partition import Mapping, Partitions, all_partitions, custom, latest, offset, window

GIVEN = frozenset({"spark", "ctx"})  # parameters that the worker fills itself

Upstream = Callable[..., Iterable[str]]
Missing = Literal["block", "skip"]


@dataclass(frozen=True)
class TableRef:
    """The default of a parameter that stands for a table."""

    name: str
    mapping: Mapping | None
    where: SourceLine
    missing: Missing | None = None

    def input(self, parameter: str) -> "InputDef":
        """The table as an input, under the name by which it is read."""
        return InputDef(parameter, self.name, self.mapping, where=self.where, missing=self.missing)


@dataclass(frozen=True)
class InputDef:
    """A table that is read, under the name by which the function or the query knows it.

    Once a project is loaded without problems, `mapping` is there: the one that was asked for, or what the
    partitions of both sides suggest. `missing` says whether a partition of the input without data is waited
    for or skipped; None is what the mapping does, see `skips_missing`.
    """

    parameter: str
    table: str
    mapping: Mapping | None = None
    by_name: bool = False  # found by the name of the parameter, not by a `table(...)`
    where: SourceLine = NOWHERE
    missing: Missing | None = None

    def skips_missing(self, of: Partitions, reads: Partitions) -> bool:
        """Whether the partitions without data are skipped, if there is at least one with data."""
        if self.missing is not None:
            return self.missing == "skip"
        return self.mapping is not None and self.mapping.accepts_partial(of, reads)


def table(
    name: "str | SourceDef",
    *,
    window: int | None = None,
    offset: int | None = None,
    partitions: str | Upstream | None = None,
    mapping: Mapping | None = None,
    missing: str | None = None,
) -> Any:
    """Say that a parameter stands for a table, and which of its partitions one run reads.

    `window=7` is this partition and the six before it, `offset=-1` the one before, `partitions` is "all",
    "latest" or a function. `missing="skip"` reads those of them that have data, "block" waits for all. Its
    type is Any, so that a parameter keeps the type that the function needs.
    """
    called = name.name if isinstance(name, SourceDef) else full_name(name)
    reads_one = offset is not None or partitions == "latest"
    return TableRef(
        called,
        asked_mapping(window, offset, partitions, mapping),
        here(),
        asked_missing(missing, reads_one=reads_one),
    )


def asked_missing(asked: object, *, reads_one: bool) -> Missing | None:
    """What is to be done about partitions without data, if that was said."""
    if asked is None:
        return None
    if reads_one:
        complain("missing is for inputs of several partitions, and offset and 'latest' read one")
        return None
    match asked:
        case "block" | "skip":
            return asked
    complain(f"missing={asked!r} of a table is none of {', '.join(get_args(Missing))}")
    return None


def asked_mapping(
    back: int | None,
    shift: int | None,
    partitions: str | Upstream | None,
    mapping: Mapping | None,
) -> Mapping | None:
    """The mapping that was asked for; None leaves it to the partitions of both sides."""
    asked = [each for each in (back, shift, partitions, mapping) if each is not None]
    if len(asked) > 1:
        complain("a table takes one of window, offset, partitions and mapping, not several")
        return None
    try:
        if back is not None:
            return window(back)
        if shift is not None:
            return offset(shift)
        if partitions is not None:
            return _named_mapping(partitions)
    except Invalid as wrong:
        complain(str(wrong))
        return None
    return mapping


def _named_mapping(asked: str | Upstream) -> Mapping | None:
    match asked:
        case "all":
            return all_partitions
        case "latest":
            return latest
        case str():
            complain(f"partitions={asked!r} of a table is neither 'all', 'latest' nor a function")
            return None
    return custom(asked)


def inputs_of(function: Callable[..., object], where: SourceLine) -> tuple[InputDef, ...]:
    """What the parameters of a function stand for.

    A `table(...)` as default says it; a parameter without default is matched by its name once all is
    loaded, and any other default is the function's own matter.
    """
    found: list[InputDef] = []
    for name, parameter in inspect.signature(function).parameters.items():
        default = parameter.default
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or name in GIVEN:
            continue
        if isinstance(default, TableRef):
            found.append(default.input(name))
        elif isinstance(default, SourceDef):
            found.append(InputDef(name, default.name, where=where))
        elif default is parameter.empty:
            found.append(InputDef(name, name, by_name=True, where=where))
    return tuple(found)
