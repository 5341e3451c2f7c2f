"""Inputs: sources, which the project does not fill, and the tables that parameters stand for."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from arco.core.errors import Invalid
from arco.flow.define.check_rules import CheckDef, parse_checks
from arco.flow.define.declarations import (
    NOWHERE,
    SourceLine,
    current_declarations,
    declared_at,
    declared_name,
    report_problem,
)
from arco.flow.define.options import (
    PartitionsOption,
    duration_ms,
    execution_options,
    parse_partitions,
)
from arco.flow.partition import Mapping, Partitions, all_partitions, custom, latest, offset, window
from arco.flow.partition.mapping import KeyFunction


@dataclass(frozen=True)
class SourceDef:
    """A table that the project does not fill; its data should be at most `freshness_ms` old."""

    name: str
    partitions: Partitions
    freshness_ms: int | None
    checks: tuple[CheckDef, ...]
    tags: tuple[str, ...]
    owner: str | None
    description: str
    where: SourceLine


def source(
    name: str,
    *,
    partitions: PartitionsOption = None,
    freshness: str | None = None,
    checks: Sequence[CheckDef] = (),
    tags: Sequence[str] = (),
    owner: str | None = None,
    description: str = "",
) -> SourceDef:
    """Declare a table that the project reads and does not fill."""
    where = declared_at()
    table_name = declared_name(name)
    made = SourceDef(
        name=table_name,
        partitions=parse_partitions(partitions),
        freshness_ms=duration_ms(freshness, "freshness"),
        checks=parse_checks(table_name, checks),
        tags=execution_options(None, None, None, tags, owner).tags,
        owner=owner,
        description=description,
        where=where,
    )
    if (declarations := current_declarations()) is not None:
        declarations.sources.append(made)
    return made


INJECTED_PARAMETERS = frozenset({"spark", "ctx"})  # filled by the worker

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
    """A table that is read, under the name that the function or the query uses.

    Once a project is loaded without problems, `mapping` is set: the declared one, or the default for the
    partitions of both sides. `missing`: whether to wait for or to skip a partition of the input without
    data; None leaves it to the mapping, see `skips_missing`.
    """

    parameter: str
    table: str
    mapping: Mapping | None = None
    by_name: bool = False  # matched by the name of the parameter, not by a `table(...)`
    where: SourceLine = NOWHERE
    missing: Missing | None = None

    def skips_missing(self, of: Partitions, reads: Partitions) -> bool:
        """Whether partitions without data are skipped, if at least one has data."""
        if self.missing is not None:
            return self.missing == "skip"
        return self.mapping is not None and self.mapping.accepts_partial(of, reads)


def table(
    name: "str | SourceDef",
    *,
    window: int | None = None,
    offset: int | None = None,
    partitions: str | KeyFunction | None = None,
    mapping: Mapping | None = None,
    missing: str | None = None,
) -> Any:
    """Declare that a parameter stands for a table, and which of its partitions one run reads.

    `window=7` is this partition and the six before it, `offset=-1` the one before, `partitions` is "all",
    "latest" or a function. `missing="skip"` reads the partitions that have data, "block" waits for all. The
    return type is Any, so that a parameter can have the type that the function needs.
    """
    table_name = name.name if isinstance(name, SourceDef) else declared_name(name)
    reads_one = offset is not None or partitions == "latest"
    return TableRef(
        table_name,
        mapping_from_options(window, offset, partitions, mapping),
        declared_at(),
        missing_from_option(missing, reads_one=reads_one),
    )


def missing_from_option(value: object, *, reads_one: bool) -> Missing | None:
    """The option `missing`; a wrong value is reported."""
    if value is None:
        return None
    if reads_one:
        report_problem(
            "missing is for inputs of several partitions, and offset and 'latest' read one"
        )
        return None
    match value:
        case "block" | "skip":
            return value
    report_problem(f"missing={value!r} of a table is none of {', '.join(get_args(Missing))}")
    return None


def mapping_from_options(
    back: int | None,
    shift: int | None,
    partitions: str | KeyFunction | None,
    mapping: Mapping | None,
) -> Mapping | None:
    """The declared mapping; None means the default for the partitions of both sides."""
    options = [each for each in (back, shift, partitions, mapping) if each is not None]
    if len(options) > 1:
        report_problem("a table takes one of window, offset, partitions and mapping, not several")
        return None
    try:
        if back is not None:
            return window(back)
        if shift is not None:
            return offset(shift)
        if partitions is not None:
            return _named_mapping(partitions)
    except Invalid as wrong:
        report_problem(str(wrong))
        return None
    return mapping


def _named_mapping(value: str | KeyFunction) -> Mapping | None:
    match value:
        case "all":
            return all_partitions
        case "latest":
            return latest
        case str():
            report_problem(
                f"partitions={value!r} of a table is neither 'all', 'latest' nor a function"
            )
            return None
    return custom(value)


def function_inputs(function: Callable[..., object], where: SourceLine) -> tuple[InputDef, ...]:
    """The tables that the parameters of a function stand for.

    A `table(...)` as default names the table; a parameter without default is matched by its name once the
    project is loaded; a parameter with another default is no input.
    """
    inputs: list[InputDef] = []
    for name, parameter in inspect.signature(function).parameters.items():
        default = parameter.default
        if (
            parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            or name in INJECTED_PARAMETERS
        ):
            continue
        if isinstance(default, TableRef):
            inputs.append(default.input(name))
        elif isinstance(default, SourceDef):
            inputs.append(InputDef(name, default.name, where=where))
        elif default is parameter.empty:
            inputs.append(InputDef(name, name, by_name=True, where=where))
    return tuple(inputs)
