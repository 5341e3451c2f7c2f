"""Flags that the commands about pipelines share."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from arco.cli.flags import ignore_variables_for_names, variable_lines
from arco.cli.settings import VARIABLES, Flag, choose_store, find_argument, ignore_empty
from arco.core.errors import Invalid
from arco.server.settings import LOCAL_MASTER, SparkSettings, require_spark
from arco.server.workspace_address import WorkspaceAddress

if TYPE_CHECKING:
    from cyclopts.argument import ArgumentCollection

    from arco.flow.plan.plan import Reason

Selection = Annotated[
    str,
    Parameter(
        metavar="SELECTION",
        show_env_var=False,
        help="What to select: schema.table, +up, down+, 2+a, tag:x, owner:x, gold.*; may be repeated. "
        "By default everything.",
    ),
]
ProjectDir = Annotated[
    str | None,
    Parameter(
        name="--project",
        metavar="DIR",
        help="The project's folder; by default this folder, or its nearest parent with an arco.toml or "
        "pipelines/.",
    ),
]
Repeated = Parameter(
    negative="", show_default=False, metavar="KEY=VALUE", env_var_split=variable_lines
)
RUN_ID_HELP = "The run: its id, a unique beginning or end of the id, or `last`."
RunId = Annotated[str, Parameter(metavar="RUN", show_env_var=False, help=RUN_ID_HELP)]

_MEMORY = re.compile(r"[1-9][0-9]*[kmgt]", re.IGNORECASE)


class DataFormat(StrEnum):
    """A table format that assets can be written in."""

    ICEBERG = "iceberg"
    PARQUET = "parquet"


FormatFlag = Annotated[
    DataFormat | None,
    Parameter(
        name="--format",
        help="The format of assets that declare none; by default that of arco.toml, or iceberg.",
    ),
]


@Parameter(name="*")
@dataclass(frozen=True)
class PartitionChoice:
    """Flags that select partitions.

    Parameters
    ----------
    partitions
        Only these: 2026-01-15, 2026-01-01..2026-01-31, ds=.../region=eu, several with commas, all, latest.
    stale
        Only partitions whose code or inputs changed since they were made.
    failed
        Only partitions that failed last time.
    missing
        Only partitions without data.
    force
        All selected partitions, including those that are up to date.
    append_again
        Also partitions of mode append whose rows are in the table: they are added a second time.
    """

    partitions: Annotated[str | None, Parameter(metavar="WHICH")] = None
    stale: Flag = False
    failed: Flag = False
    missing: Flag = False
    force: Flag = False
    append_again: Flag = False

    def only(self) -> "frozenset[Reason] | None":
        """The reasons that count; None for all of them."""
        from arco.flow.plan.plan import Reason
        from arco.flow.plan.planner import STALE

        if self.force and (self.stale or self.failed or self.missing):
            raise Invalid(
                "--force makes everything that is meant: leave out the flags that narrow it"
            )
        chosen: set[Reason] = set()
        if self.stale:
            chosen |= STALE
        if self.failed:
            chosen.add(Reason.FAILED)
        if self.missing:
            chosen.add(Reason.MISSING)
        return frozenset(chosen) or None


@Parameter(name="*")
@dataclass(frozen=True)
class EmbeddedAddress(WorkspaceAddress):
    """Flags that start a server for one command only.

    Parameters
    ----------
    root
        A local directory: start a server on it for this command only, instead of using --url.
    store
        The URL of a store, to start a server on it for this command only.
    tenant
        The tenant; ARCO_TENANT_ID works too.
    workspace
        The workspace; ARCO_WORKSPACE_ID works too.
    no_fsync
        Do not wait for the disk. Only for tests.
    """


@Parameter(name="*")
@dataclass(frozen=True)
class SparkFlags:
    """Flags that select the Spark that executes tasks.

    Parameters
    ----------
    master
        Spark's master: local[*] for this machine, or spark://host:7077, yarn, k8s://https://host.
    conf
        A Spark setting, such as spark.sql.shuffle.partitions=8; may be repeated.
    memory
        The memory of Spark's driver, such as 2g.
    """

    master: str = LOCAL_MASTER
    conf: Annotated[tuple[str, ...], Repeated] = ()
    memory: Annotated[str | None, Parameter(metavar="SIZE")] = None

    def check(self) -> None:
        """Refuse what cannot be before anything is opened: flags, a missing Java, a missing Spark."""
        if self.memory is not None and not _MEMORY.fullmatch(self.memory):
            raise Invalid(f"--memory takes a size such as 2g or 512m, not {self.memory[:80]!r}")
        pairs("--conf", self.conf)
        SparkSettings(master=self.master).check()
        require_spark()


def choose_arco(_app: App, _commands: tuple[str, ...], arguments: "ArgumentCollection") -> None:
    """Choose between a running server (`--url`) and one for this command only (`--root`, `--store`).

    A flag on the command line beats a variable, and of two variables ARCO_URL wins.
    """
    url = find_argument(arguments, "--url")
    store_flags = (find_argument(arguments, "--root"), find_argument(arguments, "--store"))
    stores = [each for each in store_flags if each]
    if url is None or not stores:
        return
    is_url_given = any(token.source == "cli" for token in url.tokens)
    is_store_given = any(token.source == "cli" for each in stores for token in each.tokens)
    if is_url_given and is_store_given:
        raise Invalid(
            "--url names a running server, --root and --store start one for this command only: "
            "give one of them"
        )
    if is_store_given:
        url.tokens.clear()
    elif url.tokens:
        for each in stores:
            each.tokens.clear()


CONFIG = (VARIABLES, ignore_empty, choose_arco, choose_store, ignore_variables_for_names)


def command(name: str, help_text: str, examples: str) -> App:
    """A command about pipelines."""
    return App(name=name, help=help_text, help_epilogue=examples, config=CONFIG)


def pairs(flag: str, texts: tuple[str, ...]) -> Mapping[str, str]:
    """The values of a flag that takes key=value and may be repeated."""
    values: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise Invalid(f"{flag} takes key=value, not {text[:80]!r}")
        values[key] = value
    return values
