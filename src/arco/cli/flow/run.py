"""`arco run` and `arco retry`: plan, then carry the plan out in this process or leave it to workers."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from arco.cli.flags import AsJson, Server
from arco.cli.flow.flags import (
    EmbeddedAddress,
    FormatFlag,
    PartitionChoice,
    ProjectDir,
    Repeated,
    RunId,
    Selection,
    SparkFlags,
    command,
    pairs,
)
from arco.cli.settings import Flag

if TYPE_CHECKING:
    from arco.cli.flow.run_session import RunSession

_EXAMPLES = """\
Examples:
  arco run                                 what is missing, failed or stale
  arco run --root .arco                    with an Arco for this run alone
  arco run +gold.spend_7d --partitions 2026-01-11..2026-01-14
  arco run tag:gold --stale --parallel 4 --memory 4g
  arco run silver.orders --partitions latest --force --param source=backup
  arco run --detach                        leave it to `arco worker` processes
  arco run --format parquet                no Iceberg jar is needed

It exits with 0 if all was done, 1 if something failed, was blocked by a check or
by the plan, or cannot be made yet, 2 if it was misused, 130 if it was
interrupted. Ctrl-C cancels."""

_RETRY_EXAMPLES = """\
Examples:
  arco retry 01M7GVFS186HGNANJXDTGV0000
  arco retry 01M7GVFS186HGNANJXDTGV0000 --detach     by `arco worker` processes

A new run is made of all that failed, was skipped, blocked or cancelled. It is
planned with the project as it is now, so a repaired asset is made by its new
code."""

_SERVER, _ADDRESS, _SPARK, _CHOICE = Server(), EmbeddedAddress(), SparkFlags(), PartitionChoice()


@Parameter(name="*")
@dataclass(frozen=True)
class RunOptions:
    """Flags that control how a run is executed.

    Parameters
    ----------
    parallel
        How many tasks to carry out at once.
    spark
        On which Spark.
    detach
        Leave it to `arco worker` processes, and return at once.
    server
        The Arco that coordinates the runs.
    address
        An Arco for the life of this command.
    """

    project: ProjectDir = None
    parallel: Annotated[int, Parameter(metavar="N")] = 2
    spark: SparkFlags = _SPARK
    format_: FormatFlag = None
    detach: Flag = False
    server: Server = _SERVER
    address: EmbeddedAddress = _ADDRESS
    json: AsJson = False

    def session(self, param: tuple[str, ...] = ()) -> "RunSession":
        """A session that carries runs out in this way; what cannot work is refused before it is opened."""
        from arco.cli.flow.connection import ArcoTarget
        from arco.cli.flow.project import find_folder, load, load_files
        from arco.cli.flow.run_session import RunSession, RunSettings, check_request

        target = ArcoTarget(self.server, self.address)
        check_request(target, self.spark, self.parallel, detach=self.detach)
        folder = find_folder(self.project).resolve()
        files = load_files(folder, lambda: load(self.project, self.format_))
        return RunSession(
            RunSettings(
                files.loaded,
                files.modules,
                target,
                self.spark,
                self.parallel,
                param,
                as_json=self.json,
                detach=self.detach,
            )
        )


_OPTIONS = RunOptions()

Params = Annotated[
    tuple[str, ...],
    Parameter.combine(Repeated, Parameter(help="A value for `ctx.params`; may be repeated.")),
]

app = command("run", "Plan, and carry the plan out on Spark.", _EXAMPLES)
retry_app = command("retry", "Do once more what a run has not done.", _RETRY_EXAMPLES)


@app.default
def run(
    *selection: Selection,
    choice: PartitionChoice = _CHOICE,
    param: Params = (),
    options: RunOptions = _OPTIONS,
) -> int:
    """Make what is missing, failed or out of date, on Spark.

    Parameters
    ----------
    choice
        Which partitions are meant.
    options
        How it is carried out.
    """
    from arco.core import tasks

    choice.only()  # refused before anything is asked
    pairs("--param", param)
    return tasks.run(options.session(param).start(selection, choice))


@retry_app.default
def retry(run: RunId, /, *, options: RunOptions = _OPTIONS) -> int:
    """Do once more what a run has not done, as a new run.

    Parameters
    ----------
    options
        How it is carried out.
    """
    from arco.core import tasks

    return tasks.run(options.session().retry(run))
