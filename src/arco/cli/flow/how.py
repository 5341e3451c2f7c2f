"""The flags that say how a run is carried out, as `arco run` and `arco retry` both have them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from arco.cli.flags import AsJson, Server
from arco.cli.flow.flags import FormatFlag, Own, ProjectDir
from arco.cli.flow.spark_flags import OnSpark
from arco.cli.settings import Flag

if TYPE_CHECKING:
    from arco.cli.flow.running import Running

_SERVER, _PLACE, _SPARK = Server(), Own(), OnSpark()


@Parameter(name="*")
@dataclass(frozen=True)
class How:
    """Flags that say how a run is carried out.

    Parameters
    ----------
    parallel
        How many tasks to carry out at once.
    spark
        On which Spark.
    detach
        Leave it to `arco worker` processes, and return at once.
    server
        The Arco that keeps the book of runs.
    place
        An Arco for the life of this command.
    """

    project: ProjectDir = None
    parallel: Annotated[int, Parameter(metavar="N")] = 2
    spark: OnSpark = _SPARK
    format_: FormatFlag = None
    detach: Flag = False
    server: Server = _SERVER
    place: Own = _PLACE
    json: AsJson = False

    def running(self, param: tuple[str, ...] = ()) -> "Running":
        """What carries runs out in this way; what cannot work is refused before anything is opened."""
        from arco.cli.flow.code import load_files
        from arco.cli.flow.project import find_folder, load
        from arco.cli.flow.reach import Reach
        from arco.cli.flow.running import Asked, Running, check_running

        reach = Reach(self.server, self.place)
        check_running(reach, self.spark, self.parallel, detach=self.detach)
        folder = find_folder(self.project).resolve()
        files = load_files(folder, lambda: load(self.project, self.format_))
        return Running(
            Asked(
                files.loaded,
                files.modules,
                reach,
                self.spark,
                self.parallel,
                param,
                as_json=self.json,
                detach=self.detach,
            )
        )
