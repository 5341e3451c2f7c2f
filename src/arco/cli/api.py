"""`arco api`: the API alone, with its own identity; a compactor publishes for it."""

from typing import Annotated

from cyclopts import Parameter

from arco.cli.settings import Flag
from arco.server.listener import ListenSettings
from arco.server.locations import AllowedLocations
from arco.server.settings import MetadataRetention
from arco.server.workspace_address import WorkspaceAddress


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
    """Run the API alone. The service token comes from ARCO_SERVICE_TOKEN.

    Parameters
    ----------
    address
        Where the metadata are.
    listen
        How it is reached.
    retention
        How long the past is kept.
    locations
        Where tables may be stored outside the store.
    compactor
        The compactor of this workspace; ARCO_COMPACTOR_URL works too.
    no_runs
        Leave runs of pipelines to another API of this workspace: only one process may coordinate them.
    """
    address, listen = address or WorkspaceAddress(), listen or ListenSettings()
    retention, locations = retention or MetadataRetention(), locations or AllowedLocations()
    # Reject invalid settings before anything is opened.
    listen.check()
    retention.span()
    locations.urls()

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
