"""`arco retry`: what a run has not done, once more."""

from arco.cli.flow.flags import RunId, command
from arco.cli.flow.how import How

_EXAMPLES = """\
Examples:
  arco retry 01M7GVFS186HGNANJXDTGV0000
  arco retry 01M7GVFS186HGNANJXDTGV0000 --detach     by `arco worker` processes

A new run is made of all that failed, was skipped, blocked or cancelled. It is
planned with the project as it is now, so a repaired asset is made by its new
code."""

_HOW = How()

app = command("retry", "Do once more what a run has not done.", _EXAMPLES)


@app.default
def retry(run: RunId, /, *, how: How = _HOW) -> int:
    """Do once more what a run has not done, as a new run.

    Parameters
    ----------
    how
        How it is carried out.
    """
    from arco.core import tasks

    return tasks.run(how.running().again(run))
