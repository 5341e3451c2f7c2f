"""`arco up`, all of Arco in one process with Spark in a child of it; and `arco api`, the API alone.

After its start `arco up` prints the next steps for a new user.
"""

import os
import shlex
from collections.abc import Callable
from typing import Annotated
from urllib.parse import urlsplit

from cyclopts import Parameter

from arco.cli.flags import DEFAULT_URL
from arco.cli.settings import Flag
from arco.server.listener import Auth, ListenSettings
from arco.server.locations import AllowedLocations
from arco.server.settings import (
    CompactionInterval,
    CompactionSettings,
    MetadataRetention,
    RowRetention,
    RunRetention,
    SparkIdleTimeout,
    SparkSettings,
    check_all,
)
from arco.server.workspace_address import KEY_FILE, WorkspaceAddress

# The address by which this machine reaches a server that listens on all interfaces.
_LOOPBACK_OF_WILDCARD = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - read, not listened on

# The runs of the sample, also before they are compacted.
_RUNS = "'SELECT execution_id, status, duration_ms FROM system.executions'"


def ready_message(
    address: WorkspaceAddress, listen: ListenSettings, *, sample: bool = False
) -> Callable[[str], str]:
    """The message of a server that is ready, by its URL: where it is and what to do next."""

    def message(url: str) -> str:
        steps = ", ".join(_next_steps(address, listen, url, sample=sample))
        return (
            f"Arco is ready at {url}, on {address.describe()}. Next: {steps}, or open "
            f"{_local_url(listen, url)}/api/v1/docs; Ctrl-C stops it."
        )

    return message


def _next_steps(
    address: WorkspaceAddress, listen: ListenSettings, url: str, *, sample: bool
) -> list[str]:
    steps = []
    if listen.auth is Auth.LOCAL:
        steps.append(f"`export ARCO_TOKEN=$({_mint_command(address)})`")
    local_url = _local_url(listen, url)
    steps.append(
        _command("arco catalog list", "" if local_url == DEFAULT_URL else f"--url {local_url}")
    )
    if address.address().scheme != "memory":  # which only its own process can read
        steps.append(_command("arco sql 'SHOW TABLES'", address.flags()))
        if sample:
            steps.append(_command(f"arco sql {_RUNS} --fresh", address.flags()))
    return steps


def _mint_command(address: WorkspaceAddress) -> str:
    """The command that mints a token with the signing key of this process."""
    key = os.environ.get(KEY_FILE)
    before = f"{KEY_FILE}={shlex.quote(os.path.abspath(key))} " if key else ""  # noqa: PTH100 - keeps links
    return f"{before}arco token mint user:me {address.flags()}".rstrip()


def _command(words: str, flags: str) -> str:
    return f"`{words} {flags}".rstrip() + "`"


def _local_url(listen: ListenSettings, url: str) -> str:
    """The URL by which this machine reaches the server."""
    host = _LOOPBACK_OF_WILDCARD.get(listen.host)
    return url if host is None else f"http://{host}:{urlsplit(url).port}"


def up(
    *,
    address: WorkspaceAddress | None = None,
    listen: ListenSettings | None = None,
    retention: MetadataRetention | None = None,
    runs: RunRetention | None = None,
    locations: AllowedLocations | None = None,
    spark: SparkSettings | None = None,
    idle: SparkIdleTimeout | None = None,
    rows: RowRetention | None = None,
    interval: CompactionInterval | None = None,
    sample: Flag = False,
) -> None:
    """Run everything on this machine: the API, the compactor and garbage collection.

    Events are compacted on Spark, in a separate process that is started with the first of them.

    Parameters
    ----------
    address
        The store of the workspace.
    listen
        Address, port and authentication.
    retention
        Retention of old versions.
    runs
        Retention of plans and logs of runs.
    locations
        Where tables may be stored outside the store.
    spark
        The Spark on which events are compacted.
    idle
        How long Spark runs without events.
    rows
        Retention of rows of the event tables.
    interval
        How long small batches of events wait to be compacted.
    sample
        Add a small sample catalog to explore.
    """
    address, listen = address or WorkspaceAddress(), listen or ListenSettings()
    retention, runs = retention or MetadataRetention(), runs or RunRetention()
    locations, spark = locations or AllowedLocations(), spark or SparkSettings()
    rows, interval = rows or RowRetention(), interval or CompactionInterval()
    idle = idle or SparkIdleTimeout()
    check_all(listen, retention, runs, locations, idle, spark, rows, interval)

    from arco.core.runtime import system_runtime
    from arco.core.tasks import run
    from arco.server.all_in_one import ServerSettings, serve_all_in_one

    run(
        serve_all_in_one(
            address,
            listen,
            ServerSettings(listen.auth, retention, locations, runs),
            system_runtime(),
            compaction=CompactionSettings(spark, rows, interval),
            spark_idle_ms=idle.ms(),
            sample=sample,
            ready=ready_message(address, listen, sample=sample),
        )
    )


def api(
    *,
    address: WorkspaceAddress | None = None,
    listen: ListenSettings | None = None,
    retention: MetadataRetention | None = None,
    locations: AllowedLocations | None = None,
    compactor: Annotated[
        str, Parameter(metavar="URL", env_var="ARCO_COMPACTOR_URL")
    ] = "http://127.0.0.1:8182",
    no_runs: Flag = False,
) -> None:
    """Run the API only. The service token comes from ARCO_SERVICE_TOKEN.

    Parameters
    ----------
    address
        The store of the workspace.
    listen
        Address, port and authentication.
    retention
        Retention of old versions.
    locations
        Where tables may be stored outside the store.
    compactor
        The compactor of this workspace; ARCO_COMPACTOR_URL works too.
    no_runs
        Leave runs of pipelines to another API of this workspace: only one process may coordinate them.
    """
    address, listen = address or WorkspaceAddress(), listen or ListenSettings()
    retention, locations = retention or MetadataRetention(), locations or AllowedLocations()
    check_all(listen, retention, locations)

    from arco.core.runtime import system_runtime
    from arco.core.tasks import run
    from arco.server.api_process import serve_api_process

    store = address.describe()
    run(
        serve_api_process(
            address,
            listen,
            retention,
            compactor,
            system_runtime(),
            locations=locations,
            coordinates_runs=not no_runs,
            ready=lambda url: (
                f"The API of Arco is ready at {url}, on {store}; its compactor is {compactor}."
            ),
        )
    )
