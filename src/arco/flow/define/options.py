"""The options of assets and tasks (retries, mode, format, pool, ...) and the project's defaults."""

import difflib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from arco.catalog.name import check_tags
from arco.core.duration import parse_duration
from arco.core.errors import Invalid
from arco.flow.define.declarations import current_declarations, report_problem
from arco.flow.partition import Dimension, Partitions


@dataclass(frozen=True)
class Retry:
    """Retry up to `times` times: after `delay`, then `factor` times as long each time, at most `max`.

    `jitter` is the share by which a delay varies at random, so that many tasks do not retry at once.
    """

    times: int
    delay: str = "0s"
    factor: float = 1.0
    max: str | None = None
    jitter: float = 0.0

    def __post_init__(self) -> None:
        if not _is_count(self.times):
            report_problem(f"retries are a number of attempts from 0 on, not {self.times!r}")
        if not _is_number(self.factor) or self.factor < 1:
            report_problem(f"the factor of a retry is at least 1, not {self.factor!r}")
        if not _is_number(self.jitter) or not 0 <= self.jitter <= 1:
            report_problem(f"the jitter of a retry is a share between 0 and 1, not {self.jitter!r}")
        duration_ms(self.delay, "the delay of a retry")
        duration_ms(self.max, "the longest delay of a retry")

    @property
    def delay_ms(self) -> int:
        """The delay before the first retry."""
        return parse_duration(self.delay)

    @property
    def max_ms(self) -> int | None:
        """The longest delay, if there is a limit."""
        return None if self.max is None else parse_duration(self.max)


def parse_retry(value: object) -> Retry:
    """The option `retries`: a number of times, or a `Retry`."""
    if isinstance(value, Retry):
        return value
    if not isinstance(value, int) or not _is_count(value):
        report_problem(f"retries are a number or Retry(3, delay='30s'), not {value!r}")
        return NO_RETRY
    return Retry(value)


def retry_from_config(value: object) -> Retry:
    """Retries from TOML or YAML: a number, or the options of `Retry` by name."""
    options = {"times", "delay", "factor", "max", "jitter"}
    if not isinstance(value, dict) or "times" not in value or not set(value) <= options:
        return parse_retry(value)
    return Retry(**value)


def duration_ms(text: str | None, what: str) -> int | None:
    """The milliseconds of a duration; a wrong one is reported."""
    if text is None:
        return None
    try:
        return parse_duration(text)
    except Invalid as wrong:
        report_problem(f"{what} is not valid: {wrong}")
        return None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


NO_RETRY = Retry(0)


ModeKind = Literal["replace_partition", "replace", "append", "merge"]
Format = Literal["iceberg", "parquet"]
OnMissingColumn = Literal["fail", "null", "drop"]
OnChange = Literal["block", "replace"]


@dataclass(frozen=True)
class Mode:
    """How the rows of a run are written; `on` are the key columns of a merge.

    `on_change` is for `append`: what happens to an appended partition when its code or inputs change.
    "block" keeps its rows, "replace" removes them and adds the new ones.
    """

    kind: ModeKind
    on: tuple[str, ...] = ()
    on_change: OnChange = "block"


def merge(on: Sequence[str]) -> Mode:
    """Rows replace existing ones with the same values in the columns `on`; other rows are added."""
    columns = (on,) if isinstance(on, str) else tuple(on)
    if not columns:
        report_problem("merge needs key columns: merge(on=['order_id'])")
    return Mode("merge", columns)


def parse_mode(value: str | Mode | None, *, partitioned: bool) -> Mode:
    """The given mode; by default a run replaces the partition or table that it computes."""
    if isinstance(value, Mode):
        return value
    option: object = value  # users may pass other types
    if option is merge:
        value = "merge"  # `mode=merge` without its columns
    match value:
        case None:
            return Mode("replace_partition" if partitioned else "replace")
        case "replace" | "append":
            return Mode(value)
        case "replace_partition":
            if not partitioned:
                report_problem(
                    "mode 'replace_partition' needs partitions: give them, or use 'replace'"
                )
            return Mode(value)
        case "merge":
            report_problem("mode 'merge' needs columns: write mode=merge(on=['order_id'])")
            return Mode(value)
    report_problem(f"mode {value!r} is none of {', '.join(get_args(ModeKind))}")
    return Mode("replace")


def parse_on_missing_column(value: str | None) -> OnMissingColumn:
    """What happens to a column of the table that the result lacks."""
    match value:
        case None:
            return "fail"
        case "fail" | "null" | "drop":
            return value
    report_problem(f"on_missing_column {value!r} is none of {', '.join(get_args(OnMissingColumn))}")
    return "fail"


def with_on_change(mode: Mode, value: str | None, *, partitioned: bool) -> Mode:
    """The mode with the given `on_change`; one that cannot work is reported."""
    if value is None:
        return mode
    if value not in get_args(OnChange):
        report_problem(f"on_change {value!r} is none of {', '.join(get_args(OnChange))}")
    elif mode.kind != "append":
        report_problem(
            f"on_change is for mode 'append', and this mode is {mode.kind!r}: leave it out"
        )
    elif value == "replace" and not partitioned:
        report_problem(
            "on_change='replace' needs partitions, as it replaces the rows of one: give them, use "
            "mode='replace', or add the rows once more with `arco run --append-again`"
        )
    else:
        return replace(mode, on_change="replace" if value == "replace" else "block")
    return mode


def parse_format(value: str, mode: Mode) -> Format:
    """The given table format; one that cannot be written in this mode is reported."""
    match value:
        case "iceberg":
            return value
        case "parquet":
            if mode.kind == "merge":
                report_problem("parquet files cannot be merged into: use format 'iceberg'")
            return value
    report_problem(f"format {value!r} is none of {', '.join(get_args(Format))}")
    return "iceberg"


SETTINGS_FILE = "arco.toml"
PartitionsOption = Partitions | Dimension | Sequence[Dimension] | None
UNPARTITIONED = Partitions(())


@dataclass(frozen=True)
class Settings:
    """The defaults of a project; each definition may override them."""

    name: str
    paths: tuple[str, ...] = ("pipelines",)
    retries: Retry = NO_RETRY
    pool: str = "default"
    format: str = "iceberg"
    tags: tuple[str, ...] = ()
    owner: str | None = None
    pools: dict[str, int] = field(default_factory=dict)  # how many tasks of each run at once

    def unknown_pool(self, name: str) -> str | None:
        """Why a pool name is wrong, None if it is not.

        If no pool has slots, names only decide which workers take a task; `default` needs no slots.
        """
        if not self.pools or name in self.pools or name == Settings.pool:
            return None
        close = difflib.get_close_matches(name, sorted(self.pools), n=1)
        which = f"is {close[0]!r} meant?" if close else "give it slots there"
        return f"the pool {name!r} is not in [pools] of {SETTINGS_FILE}: {which}"


@dataclass(frozen=True)
class ExecutionOptions:
    """How the tasks of a definition are executed."""

    retries: Retry
    timeout_ms: int | None
    pool: str
    tags: tuple[str, ...]
    owner: str | None


def execution_options(
    retries: int | Retry | None,
    timeout: str | None,
    pool: str | None,
    tags: Sequence[str],
    owner: str | None,
) -> ExecutionOptions:
    """The given options, with the project's defaults for the others."""
    defaults = current_settings()
    return ExecutionOptions(
        retries=defaults.retries if retries is None else parse_retry(retries),
        timeout_ms=duration_ms(timeout, "timeout"),
        pool=defaults.pool if pool is None else _pool(pool, defaults),
        tags=_tags((*defaults.tags, *((tags,) if isinstance(tags, str) else tags))),
        owner=defaults.owner if owner is None else owner,
    )


def current_settings() -> Settings:
    """The settings of the project that is being loaded; built-in defaults outside of one."""
    declarations = current_declarations()
    return Settings("") if declarations is None else declarations.settings


def parse_partitions(value: PartitionsOption) -> Partitions:
    """The partitions of a definition: one dimension, the product of several, or none."""
    if value is None:
        return UNPARTITIONED
    if isinstance(value, Partitions):
        return value
    dimensions = tuple(value) if isinstance(value, list | tuple) else (value,)
    for dimension in dimensions:
        if not hasattr(dimension, "keys") or not hasattr(dimension, "name"):
            report_problem(
                f"partitions are dimensions such as Daily('ds', start=...), not {dimension!r}"
            )
            return UNPARTITIONED
    try:
        return Partitions(dimensions)
    except Invalid as wrong:
        report_problem(str(wrong))
        return UNPARTITIONED


def description_of(value: str | None, function: Callable[..., object]) -> str:
    """The given text, or the function's docstring without its indentation."""
    return value if value is not None else inspect.getdoc(function) or ""


def _pool(value: object, defaults: Settings) -> str:
    if not isinstance(value, str) or not value:
        report_problem(f"the pool is a text, not {value!r}")
        return defaults.pool
    if (wrong := defaults.unknown_pool(value)) is not None:
        report_problem(wrong)
    return value


def _tags(tags: tuple[str, ...]) -> tuple[str, ...]:
    try:
        return tuple(sorted(check_tags(tags)))
    except Invalid as wrong:
        report_problem(str(wrong))
        return ()
