"""`arco logs`: what a task has said while it ran."""

import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from arco.cli.flags import AsJson, Server
from arco.cli.flow.flags import Own, RunId, command
from arco.cli.settings import Flag

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arco.cli.remote import Remote

_EXAMPLES = """\
Examples:
  arco logs 01M7GVFS186HGNANJXDTGV0000 silver.orders@ds=2026-01-10
  arco logs 01M7GVFS186HGNANJXDTGV0000 silver.orders@ds=2026-01-10 --attempt 1
  arco logs 01M7GVFS186HGNANJXDTGV0000 report --follow

`arco runs RUN` names the tasks of a run."""

_SERVER, _PLACE = Server(), Own()
_PAUSE_MS = 1_000

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
    place: Own = _PLACE,
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
    from arco.cli.flow.reach import Reach, ask
    from arco.cli.output import print_document

    asked = _Asked(run, task, attempt, follow=follow)
    if json:
        found = ask(Reach(server, place), lambda remote: list(asked.pieces(remote)))
        text = "".join(str(each["text"]) for each in found)
        print_document({**found[-1], "text": text})
        return

    def show(remote: "Remote") -> bool:
        is_silent = True
        for each in asked.pieces(remote):
            print(each["text"], end="", flush=True)
            is_silent = is_silent and not each["text"]
        return is_silent

    reach = Reach(server, place)
    if ask(reach, show):
        flags = f" {reach.flags()}" if reach.flags() else ""
        how = f"`arco runs {run}{flags}` tells how it stands"
        print(f"The task has logged nothing: {how}.", file=sys.stderr)


class _Asked:
    """Whose log, and how far."""

    def __init__(self, run: str, task: str, attempt: int | None, *, follow: bool) -> None:
        self._run = run
        self._task = task
        self._attempt = attempt
        self._follow = follow

    def pieces(self, remote: "Remote") -> "Iterator[dict[str, object]]":
        """The log, a piece at a time; to its end if it is followed."""
        from arco.cli.flow.run_ids import find_run
        from arco.cli.remote import path
        from arco.core import json
        from arco.core.clock import SystemClock
        from arco.core.tasks import run

        run_id = find_run(remote, self._run)
        where, since = path("runs", run_id, "tasks", self._task, "logs"), 0
        attempt = None if self._attempt is None else str(self._attempt)
        while True:
            answer = remote.get(where, {"attempt": attempt, "since": str(since)})
            piece = json.decode(answer, dict)
            yield piece
            attempt = str(piece["attempt"])  # another may begin meanwhile
            has_more, since = piece["next"] > since, piece["next"]
            if piece["is_over"] or not (has_more or self._follow):
                return
            if not has_more:
                run(SystemClock().sleep(_PAUSE_MS))
