"""`arco doctor`: whether this machine, with this store, can keep Arco's promises."""

from typing import TYPE_CHECKING

from arco.cli.place import Place
from arco.cli.settings import Flag

if TYPE_CHECKING:
    from arco.cli.report import Report
    from arco.core.scope import Scope
    from arco.storage.address import Address


def doctor(*, place: Place | None = None, json: Flag = False) -> int:
    """Check this machine and a store, one promise at a time.

    Parameters
    ----------
    place
        The store and the workspace to look at.
    json
        Print one JSON document.
    """
    from arco import __version__
    from arco.cli.report import Report
    from arco.core.tasks import run

    place = place or Place()
    scope = place.scope()
    subject = {
        "arco": __version__,
        "store": place.describe(),
        "tenant": scope.tenant,
        "workspace": scope.workspace,
    }
    report = Report(subject, as_json=json)
    run(_fill(report, place.address(), scope, fsync=not place.no_fsync))
    return 0 if report.close() else 1


async def _fill(report: "Report", address: "Address", scope: "Scope", *, fsync: bool) -> None:
    from arco.cli.examine import examine
    from arco.core.runtime import system_runtime

    async for finding in examine(address, scope, system_runtime(), fsync=fsync):
        report.add(finding)
