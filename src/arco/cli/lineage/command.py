"""`arco lineage`: the upstream and downstream tables of a table, as a tree or a drawing."""

from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from arco.cli.flags import AsJson, AsOf, ById, InCatalog, Server, TableName
from arco.cli.flow.flags import EmbeddedAddress, command
from arco.cli.settings import Flag
from arco.core.errors import Invalid

if TYPE_CHECKING:
    from arco.client import Arco
    from arco.query.lineage.response import Impact, Lineage

_EXAMPLES = """\
Examples:
  arco lineage gold.spend_7d                   upstream and downstream tables
  arco lineage gold.spend_7d --columns --runs  with columns and the runs that observed them
  arco lineage raw.orders --direction down --depth 2
  arco lineage raw.orders --impact amount      everything that depends on a column
  arco lineage gold.spend_7d --mermaid         as Mermaid; --dot for Graphviz
  arco lineage --id external:s3://lake/in      a dataset outside the catalog

Lineage is observed in runs. Without --published or --as-of it includes events
that are not compacted yet. A version number is one of the domain lineage."""

_SERVER, _ADDRESS = Server(), EmbeddedAddress()
_MORE = "There is more than one answer holds: this is the nearest part."


class Direction(StrEnum):
    """Upstream, downstream or both."""

    UP = "up"
    DOWN = "down"
    BOTH = "both"


class Style(Enum):
    """How lineage is printed."""

    PLAIN = "plain"
    JSON = "json"
    MERMAID = "mermaid"
    DOT = "dot"


app = command("lineage", "Show the upstream and downstream tables of a table.", _EXAMPLES)


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
    address: EmbeddedAddress = _ADDRESS,
    json: AsJson = False,
    mermaid: Flag = False,
    dot: Flag = False,
) -> None:
    """Show the upstream and downstream tables of a table.

    Parameters
    ----------
    columns
        With columns, and what they become.
    runs
        With the newest 20 runs that observed each edge.
    direction
        up for upstream, down for downstream tables; both by default.
    depth
        The number of steps, 1 to 8; by default 8, and unlimited with --impact.
    impact
        Show everything that depends on this column instead.
    published
        Leave out events that are acknowledged and not compacted yet.
    server
        The running server.
    address
        Start a server for this command only.
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
        raise Invalid(
            "--impact always shows columns and never runs: leave out --columns and --runs"
        )
    from arco.cli.flow.connection import ArcoTarget, call_arco
    from arco.client.object_name import parse_table

    fresh = not published and as_of is None
    way = None if direction is None else direction.value

    def read(arco: "Arco") -> "Lineage | Impact":
        table_id = arco.tables.get(parse_table(name or "", catalog)).id if id_ is None else id_
        if impact is not None:
            return arco.impact(
                column=impact,
                table_id=table_id,
                direction=way,
                depth=depth,
                as_of=as_of,
                fresh=fresh,
            )
        return arco.lineage(
            table_id=table_id,
            direction=way,
            depth=depth,
            columns=columns,
            runs=runs,
            as_of=as_of,
            fresh=fresh,
        )

    answer = call_arco(ArcoTarget(server, address), read)
    style = Style.JSON if json else Style.MERMAID if mermaid else Style.DOT if dot else Style.PLAIN
    print_lineage(answer, style)


def print_lineage(answer: "Lineage | Impact", style: Style) -> None:
    """Print the lineage of a table, or all that depends on a column."""
    from msgspec import to_builtins

    from arco.cli.lineage.drawing import draw_impact, draw_lineage, to_dot, to_mermaid
    from arco.cli.lineage.tree import affected_rows, print_tree, tree_of
    from arco.cli.output import print_document
    from arco.cli.rendering import print_rows
    from arco.query.lineage.response import Lineage

    if style is Style.JSON:
        print_document(_with_run_ids(to_builtins(answer)))
        return
    if style is not Style.PLAIN:
        drawing = draw_lineage(answer) if isinstance(answer, Lineage) else draw_impact(answer)
        print((to_dot if style is Style.DOT else to_mermaid)(drawing), end="")
        return
    if isinstance(answer, Lineage):
        print_tree(tree_of(answer))
        if not answer.edges:
            print("Nothing was seen to be made of it, nor it of anything.")
    elif answer.affected:
        print_rows(("AFFECTED", "HOW", "STEPS", "BY"), affected_rows(answer))
    else:
        print("Nothing is known to depend on it.")
        return
    if answer.truncated:
        print(_MORE)


def _with_run_ids(value: object) -> object:
    """The API's document with `execution_id` named `run_id`, as in all JSON of the command line."""
    if isinstance(value, dict):
        return {
            "run_id" if key == "execution_id" else key: _with_run_ids(each)
            for key, each in value.items()
        }
    return [_with_run_ids(each) for each in value] if isinstance(value, list | tuple) else value
