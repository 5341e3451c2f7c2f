"""`arco run`: plan, then carry the plan out in this process."""

from typing import Annotated

from cyclopts import Parameter

from arco.cli.flags import AsJson, Server
from arco.cli.flow.flags import Choice, FormatFlag, Own, ProjectDir, Selection, command, pairs
from arco.cli.flow.spark_flags import OnSpark, Repeated
from arco.cli.settings import Flag

_EXAMPLES = """\
Examples:
  arco run                                 what is missing, failed or stale
  arco run --root .arco                    with an Arco for this run alone
  arco run +gold.spend_7d --partitions 2026-01-11..2026-01-14
  arco run tag:gold --stale --parallel 4 --memory 4g
  arco run silver.orders --partitions latest --force --param source=backup
  arco run --detach                        leave it to `arco worker` processes
  arco run --format parquet                no Iceberg jar is needed

It exits with 0 if all was done, 1 if something failed, was blocked or cannot
be made yet, 2 if it was misused, 130 if it was interrupted. Ctrl-C cancels."""

_SERVER, _PLACE, _CHOICE, _SPARK = Server(), Own(), Choice(), OnSpark()

Parallel = Annotated[int, Parameter(metavar="N", help="How many tasks to carry out at once.")]
Params = Annotated[
    tuple[str, ...],
    Parameter.combine(Repeated, Parameter(help="A value for `ctx.params`; may be repeated.")),
]

app = command("run", "Plan, and carry the plan out on Spark.", _EXAMPLES)


@app.default
def run(
    *selection: Selection,
    project: ProjectDir = None,
    choice: Choice = _CHOICE,
    parallel: Parallel = 2,
    spark: OnSpark = _SPARK,
    format_: FormatFlag = None,
    param: Params = (),
    detach: Flag = False,
    server: Server = _SERVER,
    place: Own = _PLACE,
    json: AsJson = False,
) -> int:
    """Make what is missing, failed or out of date, on Spark.

    Parameters
    ----------
    choice
        Which partitions are meant.
    spark
        On which Spark.
    detach
        Leave it to `arco worker` processes, and return at once.
    server
        The Arco that keeps the book of runs.
    place
        An Arco for the life of this command.
    """
    from arco.cli.flow.project import load
    from arco.cli.flow.reach import Reach
    from arco.cli.flow.running import Asked, Running, check_running
    from arco.core import tasks

    reach = Reach(server, place)
    check_running(reach, spark, parallel, detach=detach)
    choice.only()
    pairs("--param", param)
    asked = Asked(
        load(project, format_), reach, spark, parallel, tuple(param), as_json=json, detach=detach
    )
    return tasks.run(Running(asked).new(selection, choice))
