"""`arco events`: send events to a running Arco."""

import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

from cyclopts import App, Parameter

from arco.cli.flags import CONFIG, Server
from arco.core.errors import Invalid

if TYPE_CHECKING:
    from arco.client.events import SentLines

_EXAMPLES = """\
Examples:
  arco events send events.ndjson               one event in each line
  my-job --events | arco events send -         as they come out of a program

Each batch of 1,000 lines is durable once it was answered. It exits with 1 if a line
was refused, and says which and why; the others are stored all the same."""

_SERVER = Server()
_BATCH = 1_000

FileName = Annotated[
    str,
    Parameter(
        metavar="FILE",
        show_env_var=False,
        allow_leading_hyphen=True,
        help="A file with one event in each line; - reads them from stdin.",
    ),
]

app = App(
    name="events",
    help="Send events to a running Arco.",
    help_epilogue=_EXAMPLES,
    config=CONFIG,
)


@app.command
def send(file: FileName, /, *, server: Server = _SERVER) -> None:
    """Send the events of a file, and report how many were stored, and which were refused."""
    from arco.core.errors import Unavailable

    total: SentLines | None = None
    with server.open() as arco:
        for first, lines in _batches(_lines(file)):
            sent = arco.events.send_lines(lines, first=first)
            for each in sent.rejected:
                print(f"line {each.line} was refused: {each.reason}", file=sys.stderr)
            total = sent if total is None else total + sent
    if total is None:
        raise Invalid("there are no events: each line has to hold one")
    print(f"Stored {total.accepted:,} events; {total.duplicates:,} had been sent before.")
    if total.rejected:
        problem = Unavailable(f"{len(total.rejected)} lines were refused")
        problem.add_note("Correct them, and send those alone.")
        raise problem


def _lines(file: str) -> Iterator[bytes]:
    if file == "-":
        yield from sys.stdin.buffer
        return
    try:
        opened: BinaryIO = Path(file).expanduser().open("rb")
    except OSError as problem:
        reason = (problem.strerror or "it is no file").lower()
        raise Invalid(f"{file!r} cannot be read: {reason}") from problem
    with opened:
        yield from opened


def _batches(lines: Iterable[bytes]) -> Iterator[tuple[int, list[bytes]]]:
    """The lines, many at a time, with the number of the first; empty ones are counted."""
    numbered = iter(lines)
    first = 1
    while batch := list(islice(numbered, _BATCH)):
        if any(line.strip() for line in batch):
            yield first, batch
        first += len(batch)
