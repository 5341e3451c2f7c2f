"""`arco run`: plan, then carry the plan out in this process."""

from typing import Annotated

from cyclopts import Parameter

from arco.cli.flow.flags import Choice, Selection, command, pairs
from arco.cli.flow.how import How
from arco.cli.flow.spark_flags import Repeated

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

_CHOICE, _HOW = Choice(), How()

Params = Annotated[
    tuple[str, ...],
    Parameter.combine(Repeated, Parameter(help="A value for `ctx.params`; may be repeated.")),
]

app = command("run", "Plan, and carry the plan out on Spark.", _EXAMPLES)


@app.default
def run(
    *selection: Selection, choice: Choice = _CHOICE, param: Params = (), how: How = _HOW
) -> int:
    """Make what is missing, failed or out of date, on Spark.

    Parameters
    ----------
    choice
        Which partitions are meant.
    how
        How it is carried out.
    """
    from arco.core import tasks

    choice.only()  # refused before anything is asked
    pairs("--param", param)
    return tasks.run(how.running(param).new(selection, choice))
