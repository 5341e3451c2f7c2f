"""The command `arco lineage`."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from arco.cli.flags import AsJson, AsOf, ById, InCatalog, Server, TableName
from arco.cli.flow.flags import command
from arco.cli.settings import Flag
from arco.cli.target import read_table
from arco.core.errors import Invalid
from arco.server.workspace_address import WorkspaceAddress

if TYPE_CHECKING:
    from arco.cli.remote import Remote

_EXAMPLES = """\
Examples:
  arco lineage gold.spend_7d                   what it is made of, and read for
  arco lineage gold.spend_7d --columns --runs  with columns, and who has shown it
  arco lineage raw.orders --direction down --depth 2
  arco lineage raw.orders --impact amount      what depends on a column
  arco lineage gold.spend_7d --mermaid         for a page; --dot for Graphviz
  arco lineage --id external:s3://lake/in      what the catalog does not have

It tells what runs were seen to do, also what was acknowledged and is not
compacted yet, unless --published or --as-of is given. A version number is one
of the domain lineage."""

_SERVER, _PLACE = Server(), WorkspaceAddress()


class Direction(StrEnum):
    """Which way to go."""

    UP = "up"
    DOWN = "down"
    BOTH = "both"


app = command("lineage", "Show what a table is made of, and what is made of it.", _EXAMPLES)


@app.default
def lineage(
    name: TableName | None = None,
    /,
    *,
    id_: ById = None,
    columns: Flag = False,
    runs: Flag = False,
    direction: Direction | None = None,
    depth: Annotated[int | None, Parameter(metavar="N")] = None,
    impact: Annotated[str | None, Parameter(metavar="COLUMN")] = None,
    published: Flag = False,
    as_of: AsOf = None,
    catalog: InCatalog = None,
    server: Server = _SERVER,
    place: WorkspaceAddress = _PLACE,
    json: AsJson = False,
    mermaid: Flag = False,
    dot: Flag = False,
) -> None:
    """Show what a table is made of, and what is made of it.

    Parameters
    ----------
    columns
        With columns, and what became of them.
    runs
        With the runs that have shown it, the newest 20 of each edge.
    direction
        up for what it is made of, down for what is made of it; both by default.
    depth
        How many steps to go, 1 to 8; 8 by default, and of an impact all.
    impact
        Show all that depends on this column instead.
    published
        Leave out what was acknowledged and is not compacted yet.
    server
        The Arco to ask.
    place
        A store, to bring an Arco of its own for the life of this command.
    mermaid
        Print a drawing in Mermaid.
    dot
        Print a drawing in DOT, the language of Graphviz.
    """
    if json + mermaid + dot > 1:
        raise Invalid("--json, --mermaid and --dot exclude each other: give one of them")
    if (name is None) == (id_ is None):
        raise Invalid("give the name of a table, or its id with --id")
    if impact is not None and (columns or runs):
        raise Invalid("--impact tells columns anyway, and no runs: leave out --columns and --runs")
    from arco.cli.flow.reach import Reach, ask
    from arco.cli.lineage.printing import Style, print_impact, print_lineage
    from arco.cli.remote import path

    params = {
        "direction": None if direction is None else direction.value,
        "depth": None if depth is None else str(depth),
        "columns": "true" if columns else None,
        "runs": "true" if runs else None,
        "impact": impact,
        "as_of": as_of,
        "freshness": None if published or as_of is not None else "fresh",
    }

    def asked(remote: "Remote") -> bytes:
        table_id = _id_of(remote, name, catalog) if id_ is None else id_
        return remote.get(path("lineage", table_id), params)

    found = ask(Reach(server, place), asked)
    style = Style.JSON if json else Style.MERMAID if mermaid else Style.DOT if dot else Style.PLAIN
    (print_lineage if impact is None else print_impact)(found, style)


def _id_of(remote: "Remote", name: str | None, catalog: str | None) -> str:
    from arco.cli.remote import path
    from arco.cli.things import Thing
    from arco.core import json

    target = read_table(name or "", catalog)
    return json.decode(remote.get(path(*target.url)), Thing).id
