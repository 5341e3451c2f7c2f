"""Assets, functions or queries whose result is a table, and tasks, functions that write tables themselves.

A decorator returns its function unchanged, so that a unit test can call it. The declaration is recorded in
the project that is being loaded.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from arco.flow.define.check_rules import CheckDef, parse_checks
from arco.flow.define.declarations import (
    SourceLine,
    current_declarations,
    declared_at,
    declared_name,
    reject_missing_call,
    report_problem,
    require_plain_function,
)
from arco.flow.define.inputs import (
    INJECTED_PARAMETERS,
    InputDef,
    SourceDef,
    TableRef,
    function_inputs,
)
from arco.flow.define.options import (
    Format,
    Mode,
    OnMissingColumn,
    PartitionsOption,
    Retry,
    current_settings,
    description_of,
    execution_options,
    parse_format,
    parse_mode,
    parse_on_missing_column,
    parse_partitions,
    with_on_change,
)
from arco.flow.partition import Partitions
from arco.flow.table_name import base_name

F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True)
class OutputDef:
    """A written table; `key` is its key in the dict that a function with several outputs returns."""

    key: str
    table: str


@dataclass(frozen=True)
class AssetDef:
    """The declaration of an asset. Either `function` or `sql` computes it."""

    name: str
    outputs: tuple[OutputDef, ...]
    inputs: tuple[InputDef, ...]
    partitions: Partitions
    function: Callable[..., object] | None
    sql: str | None
    mode: Mode
    format: Format
    checks: tuple[CheckDef, ...]
    retries: Retry
    timeout_ms: int | None
    pool: str
    tags: tuple[str, ...]
    owner: str | None
    description: str
    where: SourceLine
    strict: bool
    on_missing_column: OnMissingColumn = "fail"
    sql_file: str | None = None  # the file of the query, if it has one


@dataclass(frozen=True, kw_only=True)
class AssetOptions:
    """The options of an asset, from Python or from the header of a SQL file."""

    outputs: Mapping[str, str] | None = None
    partitions: PartitionsOption = None
    mode: str | Mode | None = None
    on_change: str | None = None
    format: str | None = None
    checks: Sequence[CheckDef] = ()
    retries: int | Retry | None = None
    timeout: str | None = None
    pool: str | None = None
    tags: Sequence[str] = ()
    owner: str | None = None
    description: str | None = None
    strict: bool = False
    on_missing_column: str | None = None

    def define(
        self,
        name: str | None,
        *,
        function: Callable[..., object] | None = None,
        sql: str | None = None,
        sql_file: str | None = None,
        inputs: tuple[InputDef, ...],
        where: SourceLine,
    ) -> AssetDef:
        """The asset with these options; problems with them are reported."""
        outputs = _outputs(name, self.outputs)
        partitions = parse_partitions(self.partitions)
        mode = parse_mode(self.mode, partitioned=bool(partitions))
        mode = with_on_change(mode, self.on_change, partitioned=bool(partitions))
        options = execution_options(self.retries, self.timeout, self.pool, self.tags, self.owner)
        return AssetDef(
            name=outputs[0].table,
            outputs=outputs,
            inputs=inputs,
            partitions=partitions,
            function=function,
            sql=sql,
            sql_file=sql_file,
            mode=mode,
            format=parse_format(self.format or current_settings().format, mode),
            checks=self._checks(outputs),
            retries=options.retries,
            timeout_ms=options.timeout_ms,
            pool=options.pool,
            tags=options.tags,
            owner=options.owner,
            description=self._description(function),
            where=where,
            strict=self.strict,
            on_missing_column=parse_on_missing_column(self.on_missing_column),
        )

    def _checks(self, outputs: tuple[OutputDef, ...]) -> tuple[CheckDef, ...]:
        if self.checks and len(outputs) > 1:
            report_problem(
                "checks=[...] are for one output: with several, write @check('gold.a') for each"
            )
        return parse_checks(outputs[0].table, self.checks)

    def _description(self, function: Callable[..., object] | None) -> str:
        if function is None:
            return self.description or ""
        return description_of(self.description, function)


def asset(
    name: str | None = None,
    *,
    outputs: Mapping[str, str] | None = None,
    partitions: PartitionsOption = None,
    mode: str | Mode | None = None,
    on_change: str | None = None,
    format: str | None = None,  # noqa: A002 - the word that people look for
    checks: Sequence[CheckDef] = (),
    retries: int | Retry | None = None,
    timeout: str | None = None,
    pool: str | None = None,
    tags: Sequence[str] = (),
    owner: str | None = None,
    description: str | None = None,
    strict: bool = False,
    on_missing_column: str | None = None,
) -> Callable[[F], F]:
    """Declare that a function computes a table, or several: `outputs={"a": "gold.a", "b": "gold.b"}`."""
    if callable(name):
        return reject_missing_call("asset", "'gold.spend'", name)
    options = AssetOptions(
        outputs=outputs,
        partitions=partitions,
        mode=mode,
        on_change=on_change,
        format=format,
        checks=checks,
        retries=retries,
        timeout=timeout,
        pool=pool,
        tags=tags,
        owner=owner,
        description=description,
        strict=strict,
        on_missing_column=on_missing_column,
    )

    def declare(function: F) -> F:
        where = declared_at()
        require_plain_function(function)
        made = options.define(
            name, function=function, inputs=function_inputs(function, where), where=where
        )
        collect_asset(made)
        return function

    return declare


def collect_asset(made: AssetDef) -> None:
    """Add an asset to the project that is being loaded."""
    if (declarations := current_declarations()) is not None:
        declarations.assets.append(made)


def _outputs(name: str | None, several: Mapping[str, str] | None) -> tuple[OutputDef, ...]:
    if several and name is None:
        return tuple(OutputDef(key, declared_name(table)) for key, table in several.items())
    if several is not None or name is None:
        report_problem("an asset has one name or outputs={'a': 'gold.a'}: give one of both")
    return (OutputDef("", declared_name(name or "unnamed.unnamed")),)


T = TypeVar("T")


@dataclass(frozen=True)
class TaskDef:
    """The declaration of a task; it reads and writes the declared tables itself."""

    name: str
    inputs: tuple[InputDef, ...]
    outputs: tuple[OutputDef, ...]
    partitions: Partitions
    function: Callable[..., object]
    retries: Retry
    timeout_ms: int | None
    pool: str
    tags: tuple[str, ...]
    owner: str | None
    description: str
    where: SourceLine


def task(
    name: str | None = None,
    *,
    reads: Sequence[str | SourceDef | TableRef] = (),
    writes: Sequence[str] = (),
    partitions: PartitionsOption = None,
    retries: int | Retry | None = None,
    timeout: str | None = None,
    pool: str | None = None,
    tags: Sequence[str] = (),
    owner: str | None = None,
    description: str | None = None,
) -> Callable[[F], F]:
    """Declare a function that writes its tables itself; it may take `ctx` and `spark` as parameters."""
    if callable(name):
        return reject_missing_call("task", "writes=['ml.model']", name)
    outputs = tuple(OutputDef("", declared_name(each)) for each in _several("writes", writes))
    parsed_partitions = parse_partitions(partitions)
    options = execution_options(retries, timeout, pool, tags, owner)

    def declare(function: F) -> F:
        where = declared_at()
        require_plain_function(function)
        read = tuple(_read(each, where) for each in _several("reads", reads))
        _refuse_parameters(function, where)
        made = TaskDef(
            name=name or function.__name__,
            inputs=read,
            outputs=outputs,
            partitions=parsed_partitions,
            function=function,
            retries=options.retries,
            timeout_ms=options.timeout_ms,
            pool=options.pool,
            tags=options.tags,
            owner=options.owner,
            description=description_of(description, function),
            where=where,
        )
        if (declarations := current_declarations()) is not None:
            declarations.tasks.append(made)
        return function

    return declare


def _several(what: str, names: Sequence[T]) -> Sequence[T]:
    """The names; a problem if they are one text, which is a sequence of letters."""
    if isinstance(names, str):
        report_problem(f"{what} is a list of tables: write {what}=[{names!r}]")
        return ()
    return names


def _read(table: str | SourceDef | TableRef, where: SourceLine) -> InputDef:
    if isinstance(table, TableRef):
        return table.input(base_name(table.name))
    name = table.name if isinstance(table, SourceDef) else declared_name(table)
    return InputDef(base_name(name), name, where=where)


def _refuse_parameters(function: Callable[..., object], where: SourceLine) -> None:
    """Report parameters for tables: a task opens its tables itself, so a call would lack them."""
    injected = " and ".join(sorted(INJECTED_PARAMETERS))
    for each in function_inputs(function, where):
        report_problem(
            f"the task {function.__name__!r} has a parameter {each.parameter!r} that is never filled: "
            f"a task may take {injected}, and opens the tables of reads=[...] itself"
        )
