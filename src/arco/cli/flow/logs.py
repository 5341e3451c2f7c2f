"""`arco logs`: the log of a task."""

import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from msgspec import structs

from arco.cli.flags import AsJson, Server
from arco.cli.flow.flags import EmbeddedPlace, RunId, command
from arco.cli.settings import Flag

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arco.client import Arco
    from arco.client.models import TaskLogChunk

_EXAMPLES = """\
Examples:
  arco logs 01M7GVFS186HGNANJXDTGV0000 silver.orders@ds=2026-01-10
  arco logs 01M7GVFS186HGNANJXDTGV0000 silver.orders@ds=2026-01-10 --attempt 1
  arco logs 01M7GVFS186HGNANJXDTGV0000 report --follow

`arco runs RUN` names the tasks of a run."""

_SERVER, _PLACE = Server(), EmbeddedPlace()

app = command("logs", "Print what a task has logged.", _EXAMPLES)


@app.default
def logs(
    run: RunId,
    task: Annotated[str, Parameter(metavar="TASK", show_env_var=False)],
    /,
    *,
    attempt: Annotated[int | None, Parameter(metavar="N")] = None,
    follow: Flag = False,
    server: Server = _SERVER,
    place: EmbeddedPlace = _PLACE,
    json: AsJson = False,
) -> None:
    """Print what an attempt at a task has logged.

    Parameters
    ----------
    task
        The task, by its key: schema.table@partition, or the name of a task.
    attempt
        Which attempt; the last one by default.
    follow
        Go on until the attempt is over.
    server
        The Arco to ask.
    place
        An Arco for the life of this command.
    """
    from arco.cli.flow.connection import ArcoTarget, call_arco
    from arco.cli.output import print_document

    target = ArcoTarget(server, place)

    def chunks(arco: "Arco") -> "Iterator[TaskLogChunk]":
        return arco.runs.logs(arco.runs.find(run), task, attempt=attempt, follow=follow)

    if json:
        log_chunks = call_arco(target, lambda arco: list(chunks(arco)))
        text = "".join(chunk.text for chunk in log_chunks)
        print_document(structs.replace(log_chunks[-1], text=text))
        return

    def show(arco: "Arco") -> bool:
        is_empty = True
        for chunk in chunks(arco):
            print(chunk.text, end="", flush=True)
            is_empty = is_empty and not chunk.text
        return is_empty

    if call_arco(target, show):
        flags = f" {target.flags()}" if target.flags() else ""
        status = f"`arco runs {run}{flags}` shows its status"
        print(f"The task has logged nothing: {status}.", file=sys.stderr)
