"""`arco retry`: what a run has not done, once more."""

from arco.cli.flags import AsJson, Server
from arco.cli.flow.flags import FormatFlag, Own, ProjectDir, RunId, command
from arco.cli.flow.run import Parallel
from arco.cli.flow.spark_flags import OnSpark
from arco.cli.settings import Flag

_EXAMPLES = """\
Examples:
  arco retry 01M7GVFS186HGNANJXDTGV0000
  arco retry 01M7GVFS186HGNANJXDTGV0000 --detach     by `arco worker` processes

A new run is made of all that failed, was skipped, blocked or cancelled. It has
the same plan, so nothing is planned anew: `arco run` does that."""

_SERVER, _PLACE, _SPARK = Server(), Own(), OnSpark()

app = command("retry", "Do once more what a run has not done.", _EXAMPLES)


@app.default
def retry(
    run: RunId,
    /,
    *,
    project: ProjectDir = None,
    parallel: Parallel = 2,
    spark: OnSpark = _SPARK,
    format_: FormatFlag = None,
    detach: Flag = False,
    server: Server = _SERVER,
    place: Own = _PLACE,
    json: AsJson = False,
) -> int:
    """Do once more what a run has not done, as a new run.

    Parameters
    ----------
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
    asked = Asked(load(project, format_), reach, spark, parallel, as_json=json, detach=detach)
    return tasks.run(Running(asked).again(run))
