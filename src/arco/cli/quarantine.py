"""`arco quarantine`: events that were acknowledged and could not be folded."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from arco.cli.flags import AsJson, Server, names_come_from_the_line
from arco.cli.settings import VARIABLES, choose_place, ignore_empty
from arco.core.errors import Invalid, NotFound
from arco.server.workspace_address import WorkspaceAddress

if TYPE_CHECKING:
    import pyarrow as pa

_EXAMPLES = """\
Examples:
  arco quarantine list                         what is there, and was not sent anew
  arco quarantine list --all --json            with what was, for a program
  arco quarantine show executions/01M7FVEX5ZQ4SN3QGY2E97DMKR/3/17
  arco quarantine replay executions/01M7FVEX5ZQ4SN3QGY2E97DMKR/3/17
  arco quarantine replay --all                 after an update that understands them

`list` and `show` read the store itself, as `arco sql` does. `replay` asks a running
Arco: events that it understands are folded, the others stay, and it says why."""

LineName = Annotated[
    str,
    Parameter(
        metavar="LINE", show_env_var=False, help="A line, as `arco quarantine list` names it."
    ),
]
_Flag = Annotated[bool, Parameter(negative="", show_default=False, show_env_var=False)]

_SERVER = Server()
_PLACE = WorkspaceAddress()
_HEADINGS = ("LINE", "EVENT", "RECEIVED", "REPLAYED", "REASON")
_COLUMNS = "domain, stream, segment, line, event_type, received_at, replayed_at, reason"
_ORDER = "ORDER BY received_at, domain, stream, segment, line"

app = App(
    name="quarantine",
    help="Events that could not be folded: list, show, replay.",
    help_epilogue=_EXAMPLES,
    config=(VARIABLES, ignore_empty, choose_place, names_come_from_the_line),
)


@app.command(name="list")
def list_(*, place: WorkspaceAddress = _PLACE, all: _Flag = False, json: AsJson = False) -> None:  # noqa: A002
    """List the lines in quarantine, oldest first.

    Parameters
    ----------
    all
        Also those that were replayed.
    """
    from arco.cli.listing import print_rows
    from arco.cli.result import print_json

    where = "" if all else "WHERE replayed_at IS NULL"
    found = _ask(place, f"SELECT {_COLUMNS} FROM system.quarantine {where} {_ORDER}")  # noqa: S608
    if json:
        print_json(found)
    else:
        print_rows(_HEADINGS, [[_cells(row) for row in found.to_pylist()]])


@app.command
def show(line: LineName, /, *, place: WorkspaceAddress = _PLACE, json: AsJson = False) -> None:
    """Show a line with its event."""
    from arco.cli.listing import print_fields
    from arco.cli.result import print_json
    from arco.core.ids import parse_ulid

    domain, stream, segment, number = _parts(line)
    found = _ask(
        place,
        f"SELECT * FROM system.quarantine WHERE domain = '{domain}' "  # noqa: S608 - all of it is checked
        f"AND stream = '{parse_ulid(stream)}' AND segment = {segment} AND line = {number}",
    )
    if not found.num_rows:
        raise NotFound(f"there is no line {line} in quarantine")
    if json:
        print_json(found)
    else:
        fields = found.to_pylist()[0]
        print_fields((name, _text(value)) for name, value in fields.items())


@app.command
def replay(
    *lines: LineName,
    all: _Flag = False,  # noqa: A002
    server: Server = _SERVER,
) -> None:
    """Send the events of lines anew.

    Parameters
    ----------
    all
        Of all lines that were not replayed yet.
    """
    from arco.cli.replay import replay_all

    if all == bool(lines):
        raise Invalid("name the lines to replay, or give --all")
    wanted = [_parts(line) for line in lines]
    with server.open() as remote:
        replay_all(remote, wanted or None)


def _ask(place: WorkspaceAddress, query: str) -> "pa.Table":
    from arco.cli.sql import ask
    from arco.core.tasks import run

    place.check_there()
    return run(ask(place, query, None, fresh=False))


def _cells(row: dict[str, object]) -> list[str]:
    names = ("event_type", "received_at", "replayed_at", "reason")
    return [name_of(row), *(_text(row[name]) for name in names)]


def name_of(row: dict[str, object]) -> str:
    """A line in one word."""
    return "/".join(str(row[part]) for part in ("domain", "stream", "segment", "line"))


def _parts(line: str) -> tuple[str, str, int, int]:
    from arco.fold.tier2 import TIER2

    domain, *rest = line.split("/")
    if domain not in TIER2 or len(rest) != 3 or not all(each.isdecimal() for each in rest[1:]):
        raise Invalid(
            f"{line[:120]!r} names no line: it is DOMAIN/STREAM/SEGMENT/LINE, as the list has it"
        )
    return domain, rest[0], int(rest[1]), int(rest[2])


def _text(value: object) -> str:
    from datetime import datetime

    if value is None:
        return ""
    return value.isoformat() if isinstance(value, datetime) else str(value)
