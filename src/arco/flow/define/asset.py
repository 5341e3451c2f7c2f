"""Assets: a function or a query whose result is a table.

The decorated function is handed back untouched, so that a unit test calls it like any other. What was
declared goes to the list of the project that is being loaded.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from arco.flow.define.check import CheckDef, checks_of
from arco.flow.define.collect import complain, current, here
from arco.flow.define.decorated import check_plain, without_call
from arco.flow.define.mode import (
    Format,
    Mode,
    OnMissingColumn,
    format_of,
    mode_of,
    on_missing_column_of,
    with_on_change,
)
from arco.flow.define.name import full_name
from arco.flow.define.option import Cut, description_of, partitions_of, running_of, settings
from arco.flow.define.retry import Retry
from arco.flow.define.table import InputDef, inputs_of
from arco.flow.define.where import SourceLine
from arco.flow.partition import Partitions

F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True)
class OutputDef:
    """A table that is written; `key` is its place in the dict that a function with several returns."""

    key: str
    table: str


@dataclass(frozen=True)
class AssetDef:
    """All that is declared of an asset. Either `function` or `sql` says how it is computed."""

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
    sql_file: str | None = None  # that the query stands in, if it has one of its own


@dataclass(frozen=True, kw_only=True)
class AssetOptions:
    """What may be said of an asset, be it in Python or in the header of a query."""

    outputs: Mapping[str, str] | None = None
    partitions: Cut = None
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
        """The asset with these options; what is wrong with them is complained of."""
        outputs = _outputs(name, self.outputs)
        cut = partitions_of(self.partitions)
        mode = mode_of(self.mode, partitioned=bool(cut))
        mode = with_on_change(mode, self.on_change, partitioned=bool(cut))
        running = running_of(self.retries, self.timeout, self.pool, self.tags, self.owner)
        return AssetDef(
            name=outputs[0].table,
            outputs=outputs,
            inputs=inputs,
            partitions=cut,
            function=function,
            sql=sql,
            sql_file=sql_file,
            mode=mode,
            format=format_of(self.format or settings().format, mode),
            checks=self._checks(outputs),
            retries=running.retries,
            timeout_ms=running.timeout_ms,
            pool=running.pool,
            tags=running.tags,
            owner=running.owner,
            description=self._description(function),
            where=where,
            strict=self.strict,
            on_missing_column=on_missing_column_of(self.on_missing_column),
        )

    def _checks(self, outputs: tuple[OutputDef, ...]) -> tuple[CheckDef, ...]:
        if self.checks and len(outputs) > 1:
            complain(
                "checks=[...] are for one output: with several, write @check('gold.a') for each"
            )
        return checks_of(outputs[0].table, self.checks)

    def _description(self, function: Callable[..., object] | None) -> str:
        if function is None:
            return self.description or ""
        return description_of(self.description, function)


def asset(
    name: str | None = None,
    *,
    outputs: Mapping[str, str] | None = None,
    partitions: Cut = None,
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
        return without_call("asset", "'gold.spend'", name)
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
        where = here()
        check_plain(function)
        made = options.define(
            name, function=function, inputs=inputs_of(function, where), where=where
        )
        collect_asset(made)
        return function

    return declare


def collect_asset(made: AssetDef) -> None:
    """Add an asset to the project that is being loaded."""
    if (collection := current()) is not None:
        collection.assets.append(made)


def _outputs(name: str | None, several: Mapping[str, str] | None) -> tuple[OutputDef, ...]:
    if several and name is None:
        return tuple(OutputDef(key, full_name(table)) for key, table in several.items())
    if several is not None or name is None:
        complain("an asset has one name or outputs={'a': 'gold.a'}: give one of both")
    return (OutputDef("", full_name(name or "unnamed.unnamed")),)
