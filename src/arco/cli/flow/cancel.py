"""`arco cancel`: stop a run for good."""

from typing import TYPE_CHECKING

from arco.cli.flags import AsJson, Server
from arco.cli.flow.flags import Own, RunId, command

if TYPE_CHECKING:
    from arco.cli.remote import Remote
    from arco.flow.coordinator.messages import RunView

_EXAMPLES = """\
Examples:
  arco cancel 01M7GVFS186HGNANJXDTGV0000

Tasks that run are stopped, also in Spark; the others do not begin. What is
published stays published. `arco retry RUN` does the rest another time."""

_SERVER, _PLACE = Server(), Own()
_LOOKS = 20
_WAIT_MS = 1_000

app = command("cancel", "Stop a run for good.", _EXAMPLES)


@app.default
def cancel(
    run: RunId,
    /,
    *,
    server: Server = _SERVER,
    place: Own = _PLACE,
    json: AsJson = False,
) -> None:
    """Stop a run for good; what is published stays published.

    Parameters
    ----------
    server
        The Arco that keeps the book of runs.
    place
        An Arco for the life of this command.
    """
    from arco.cli.flow.reach import Reach, ask
    from arco.cli.flow.run_ids import find_run
    from arco.cli.output import print_document

    reach = Reach(server, place)
    view = ask(reach, lambda remote: _cancel(remote, find_run(remote, run)), needs_coordinator=True)
    if json:
        print_document(view)
        return
    counts = ", ".join(f"{count:,} {status.lower()}" for status, count in view.counts.items())
    print(f"Run {view.run_id} is {view.status.lower()}: {counts}.")


def _cancel(remote: "Remote", run_id: str) -> "RunView":
    """Have it stopped, and see it stop, if that is a matter of moments."""
    from arco.cli.remote import path
    from arco.core import json
    from arco.flow.coordinator.messages import RunView

    view = json.decode(remote.change("POST", path("runs", run_id, "cancel"), {}), RunView)
    for _ in range(_LOOKS):
        if view.status.is_over:
            break
        asked = {"since": str(view.number), "wait_ms": str(_WAIT_MS)}
        view = json.decode(remote.get(path("runs", run_id), asked), RunView)
    return view
