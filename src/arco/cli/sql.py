"""`arco sql`: SQL over the files of a store, without a server, or on a running server."""

import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from arco.cli.flags import AsJson, AsOf, Server
from arco.cli.flow.flags import command
from arco.core.errors import Invalid
from arco.server.workspace_address import WorkspaceAddress

if TYPE_CHECKING:
    import pyarrow as pa

_EXAMPLES = """\
Examples:
  arco sql "SHOW TABLES"
  arco sql "SELECT name, format FROM system.tables" --root /data/arco
  arco sql "SELECT count(*) FROM system.columns" --as-of 17 --json
  arco sql - --csv < question.sql > answer.csv
  arco sql "SELECT * FROM system.tables" --arrow tables.arrow
  arco sql "SELECT status, count(*) FROM system.tasks GROUP BY status" --fresh
  arco sql "SHOW TABLES" --url http://127.0.0.1:8181     on a running server

It reads the files of the store as the role reader, without a server, unless
--url or ARCO_URL names one. --fresh also reads the ledger, which needs the role
api. It queries the tables system.*; `arco preview` shows rows of your own tables."""

Query = Annotated[
    str,
    Parameter(
        metavar="SQL",
        show_env_var=False,
        allow_leading_hyphen=True,
        help="One read-only query; - reads it from stdin.",
    ),
]
_ADDRESS, _NO_SERVER = WorkspaceAddress(), Server(url="")

app = command("sql", "Query Arco's metadata tables with SQL, without a server.", _EXAMPLES)


@app.default
def sql(
    query: Query,
    /,
    *,
    address: WorkspaceAddress = _ADDRESS,
    server: Server = _NO_SERVER,
    as_of: AsOf = None,
    fresh: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Include events that are acknowledged and not compacted yet.",
        ),
    ] = False,
    json: AsJson = False,
    csv: Annotated[
        bool, Parameter(negative="", show_default=False, help="Print comma-separated values.")
    ] = False,
    arrow: Annotated[
        str | None, Parameter(metavar="FILE", help="Write an Arrow file (Feather) instead.")
    ] = None,
) -> None:
    """Query the metadata tables system.* with SQL."""
    if json + csv + (arrow is not None) > 1:
        raise Invalid("--json, --csv and --arrow exclude each other: give one of them")
    from arco.cli.rendering import print_csv, print_json, print_result, write_arrow
    from arco.core.tasks import run

    text = sys.stdin.read() if query == "-" else query
    if not text.strip():
        raise Invalid("there is no query: give one in quotes, or - and one on stdin")
    if server.url:
        with server.open() as arco:
            table = arco.query_arrow(text, as_of=as_of, fresh=fresh)
    else:
        table = run(query_store(address, text, as_of, fresh=fresh))
    if arrow is not None:
        write_arrow(table, arrow)
    else:
        (print_json if json else print_csv if csv else print_result)(table)


async def query_store(
    address: WorkspaceAddress, text: str, as_of: str | None, *, fresh: bool
) -> "pa.Table":
    """The result of a query over the files of a store."""
    from arco.catalog.reader import SnapshotReader
    from arco.core.runtime import system_runtime
    from arco.query.engine import SqlEngine
    from arco.storage.roles import Role
    from arco.storage.store import Store

    runtime = system_runtime()
    backend = address.backend(runtime)
    # Not proven sound for writing, as nothing is written.
    store = Store(backend, runtime, role=Role.API if fresh else Role.READER, scope=address.scope())
    engine = SqlEngine(SnapshotReader(store))
    try:
        return await engine.query(text, as_of=as_of, freshness="fresh" if fresh else None)
    finally:
        await engine.close()
