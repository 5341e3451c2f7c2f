"""`arco doctor`: whether this machine, with this store, can keep Arco's promises."""

from typing import TYPE_CHECKING

from arco.cli.settings import Flag
from arco.server.locations import AllowedLocations
from arco.server.workspace_address import WorkspaceAddress

if TYPE_CHECKING:
    from arco.cli.report import Report
    from arco.core.scope import Scope
    from arco.storage.address import Address


def doctor(
    *,
    place: WorkspaceAddress | None = None,
    locations: AllowedLocations | None = None,
    deep: Flag = False,
    json: Flag = False,
) -> int:
    """Check this machine and a store, one promise at a time.

    Parameters
    ----------
    place
        The store and the workspace to look at.
    locations
        Places outside the store that tables lie in, as for the server; only --deep looks at them.
    deep
        Look at all that the workspace holds, too: lists it, looks for what was lost, ends streams that
        their writers have left, resolves the pointer of every Iceberg table, and tells what it cannot
        repair.
    json
        Print one JSON document.
    """
    from arco import __version__
    from arco.cli.report import Report
    from arco.core.tasks import run

    place = place or WorkspaceAddress()
    scope = place.scope()
    subject = {
        "arco": __version__,
        "store": place.describe(),
        "tenant": scope.tenant,
        "workspace": scope.workspace,
    }
    report = Report(subject, as_json=json)
    run(_check_store(report, place.address(), scope, fsync=not place.no_fsync))
    if deep and report.is_good:
        run(_check_workspace(report, place, locations or AllowedLocations(), quiet=json))
    return 0 if report.close() else 1


async def _check_store(
    report: "Report", address: "Address", scope: "Scope", *, fsync: bool
) -> None:
    from arco.core.runtime import system_runtime
    from arco.server.doctor import check_store

    async for finding in check_store(address, scope, system_runtime(), fsync=fsync):
        report.add(finding)


async def _check_workspace(
    report: "Report", place: WorkspaceAddress, locations: AllowedLocations, *, quiet: bool
) -> None:
    """The content of the workspace, domain by domain; only where the store passed its checks."""
    from functools import partial

    from arco.cli.progress import progress_bar
    from arco.core.runtime import system_runtime
    from arco.server.doctor import check_workspace

    show_progress = partial(progress_bar, quiet=quiet)
    async for finding in check_workspace(place, locations, system_runtime(), show_progress):
        report.add(finding)
