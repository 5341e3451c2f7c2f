"""`arco events` sends events to a running server; `arco quarantine` lists and replays those not folded."""

import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

from cyclopts import App, Parameter

from arco.cli.flags import CONFIG, AsJson, Server, ignore_variables_for_names
from arco.cli.settings import VARIABLES, choose_store, ignore_empty
from arco.core.errors import AlreadyExists, Invalid, NotFound, Unavailable
from arco.server.workspace_address import WorkspaceAddress

if TYPE_CHECKING:
    import pyarrow as pa

    from arco.client import Arco
    from arco.client.events import SentLines
    from arco.client.models import QuarantineLine

_EXAMPLES = """\
Examples:
  arco events send events.ndjson               one event per line
  my-job --events | arco events send -         events from the output of a program

Events are sent in batches of 1,000 lines, each durable once the server has answered.
It reports refused lines with the reason and exits with 1; the others are stored."""

_SERVER = Server()
_BATCH = 1_000

FileName = Annotated[
    str,
    Parameter(
        metavar="FILE",
        show_env_var=False,
        allow_leading_hyphen=True,
        help="A file with one event per line; - reads stdin.",
    ),
]

app = App(
    name="events",
    help="Send events to a running server.",
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


_QUARANTINE_EXAMPLES = """\
Examples:
  arco quarantine list                         lines that were not replayed yet
  arco quarantine list --all --json            also replayed lines, as JSON
  arco quarantine show executions/01M7FVEX5ZQ4SN3QGY2E97DMKR/3/17
  arco quarantine replay executions/01M7FVEX5ZQ4SN3QGY2E97DMKR/3/17
  arco quarantine replay --all                 after an upgrade that understands them

`list` and `show` read the store, as `arco sql` does. `replay` sends the events to a
running server; those that it refuses stay in quarantine, with the reason."""

LineName = Annotated[
    str,
    Parameter(
        metavar="LINE", show_env_var=False, help="A line, as `arco quarantine list` prints it."
    ),
]
_Flag = Annotated[bool, Parameter(negative="", show_default=False, show_env_var=False)]

_ADDRESS = WorkspaceAddress()
_HEADINGS = ("LINE", "EVENT", "RECEIVED", "REPLAYED", "REASON")
_COLUMNS = "domain, stream, segment, line, event_type, received_at, replayed_at, reason"
_ORDER = "ORDER BY received_at, domain, stream, segment, line"

quarantine_app = App(
    name="quarantine",
    help="List, show and replay events that could not be processed.",
    help_epilogue=_QUARANTINE_EXAMPLES,
    config=(VARIABLES, ignore_empty, choose_store, ignore_variables_for_names),
)


@quarantine_app.command(name="list")
def list_(
    *,
    address: WorkspaceAddress = _ADDRESS,
    all: _Flag = False,  # noqa: A002
    json: AsJson = False,
) -> None:
    """List the lines in quarantine, oldest first.

    Parameters
    ----------
    all
        Include replayed lines.
    """
    from arco.cli.rendering import print_json, print_rows

    where = "" if all else "WHERE replayed_at IS NULL"
    rows = _query(address, f"SELECT {_COLUMNS} FROM system.quarantine {where} {_ORDER}")  # noqa: S608
    if json:
        print_json(rows)
    else:
        print_rows(_HEADINGS, [_cells(row) for row in rows.to_pylist()])


@quarantine_app.command
def show(line: LineName, /, *, address: WorkspaceAddress = _ADDRESS, json: AsJson = False) -> None:
    """Show a line with its event."""
    from arco.cli.rendering import print_fields, print_json
    from arco.core.ids import parse_ulid

    at = _parse(line)
    rows = _query(
        address,
        f"SELECT * FROM system.quarantine WHERE domain = '{at.domain}' "  # noqa: S608 - all of it is checked
        f"AND stream = '{parse_ulid(at.stream)}' AND segment = {at.segment} AND line = {at.line}",
    )
    if not rows.num_rows:
        raise NotFound(f"there is no line {line} in quarantine")
    if json:
        print_json(rows)
    else:
        fields = rows.to_pylist()[0]
        print_fields((name, _text(value)) for name, value in fields.items())


@quarantine_app.command
def replay(
    *lines: LineName,
    all: _Flag = False,  # noqa: A002
    server: Server = _SERVER,
) -> None:
    """Send the events of quarantined lines again.

    Parameters
    ----------
    all
        Replay all lines that were not replayed yet.
    """
    if all == bool(lines):
        raise Invalid("name the lines to replay, or give --all")
    named = [_parse(line) for line in lines]
    with server.open() as arco:
        _replay(arco, named or None)


def _replay(arco: "Arco", lines: "list[QuarantineLine] | None") -> None:
    """Replay these lines, or all, and print what became of each; `Unavailable` if some stay."""
    refused = 0
    wanted = list(arco.quarantine.list()) if lines is None else lines
    if not wanted:
        print("Nothing is in quarantine that was not replayed.")
    for line in wanted:
        try:
            replayed = arco.quarantine.replay(line)
        except (Invalid, AlreadyExists) as problem:
            refused += 1
            print(f"{line} stays: {problem}")
        else:
            print(f"{line}: {replayed.event_type} was sent again")
    if refused:
        unreplayed = Unavailable(f"{refused} of the lines stay in quarantine")
        unreplayed.add_note(
            "Update Arco if they are newer than it; `arco quarantine show` has the events."
        )
        raise unreplayed


def _query(address: WorkspaceAddress, query: str) -> "pa.Table":
    from arco.cli.sql import query_store
    from arco.core.tasks import run

    return run(query_store(address, query, None, fresh=False))


def _cells(row: dict[str, object]) -> list[str]:
    names = ("event_type", "received_at", "replayed_at", "reason")
    return [name_of(row), *(_text(row[name]) for name in names)]


def name_of(row: dict[str, object]) -> str:
    """A line in one word."""
    return "/".join(str(row[part]) for part in ("domain", "stream", "segment", "line"))


def _parse(line: str) -> "QuarantineLine":
    from arco.client.models import QuarantineLine
    from arco.fold.tier2 import TIER2

    domain, *rest = line.split("/")
    if domain not in TIER2 or len(rest) != 3 or not all(each.isdecimal() for each in rest[1:]):
        raise Invalid(
            f"{line[:120]!r} names no line: it is DOMAIN/STREAM/SEGMENT/LINE, as the list has it"
        )
    return QuarantineLine(domain, rest[0], int(rest[1]), int(rest[2]))


def _text(value: object) -> str:
    from datetime import datetime

    if value is None:
        return ""
    return value.isoformat() if isinstance(value, datetime) else str(value)
