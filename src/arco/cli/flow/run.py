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
  arco run                                 all missing, failed and stale partitions
  arco run --root .arco                    with a server for this run only
  arco run +gold.spend_7d --partitions 2026-01-11..2026-01-14
  arco run tag:gold --stale --parallel 4 --memory 4g
  arco run silver.orders --partitions latest --force --param source=backup
  arco run --detach                        let `arco worker` processes run it
  arco run --format parquet                as Parquet: needs no Iceberg jar

It exits with 0 if everything requested was made, 1 if something failed, was
blocked by a check or by the plan, or cannot be made yet, 2 for wrong arguments,
130 if it was interrupted. Ctrl-C cancels the run."""

_RETRY_EXAMPLES = """\
Examples:
  arco retry 01M7GVFS186HGNANJXDTGV0000
  arco retry 01M7GVFS186HGNANJXDTGV0000 --detach     on `arco worker` processes

It starts a new run of the tasks that failed or were skipped, blocked or
cancelled. They are planned with the current code of the project."""

_SERVER, _ADDRESS, _SPARK, _CHOICE = Server(), EmbeddedAddress(), SparkFlags(), PartitionChoice()


@Parameter(name="*")
@dataclass(frozen=True)
class RunOptions:
    """Flags that control how a run is executed.

    Parameters
    ----------
    parallel
        The maximum number of tasks at the same time.
    spark
        The Spark to run on.
    detach
        Let `arco worker` processes run the tasks, and return at once.
    server
        The server that coordinates the runs.
    address
        Start a server for this command only.
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

app = command("run", "Make missing, failed and stale partitions on Spark.", _EXAMPLES)
retry_app = command("retry", "Retry the unfinished tasks of a run.", _RETRY_EXAMPLES)


@app.default
def run(
    *selection: Selection,
    choice: PartitionChoice = _CHOICE,
    param: Params = (),
    options: RunOptions = _OPTIONS,
) -> int:
    """Make missing, failed and stale partitions on Spark.

    Parameters
    ----------
    choice
        The partitions to select.
    options
        Options of the run.
    """
    from arco.core import tasks

    choice.only()  # refused before anything is asked
    pairs("--param", param)
    return tasks.run(options.session(param).start(selection, choice))


@retry_app.default
def retry(run: RunId, /, *, options: RunOptions = _OPTIONS) -> int:
    """Retry the unfinished tasks of a run, as a new run.

    Parameters
    ----------
    options
        Options of the run.
    """
    from arco.core import tasks

    return tasks.run(options.session().retry(run))
