"""`arco doctor`: whether this machine, with this store, can keep Arco's promises."""

from typing import TYPE_CHECKING

from arco.cli.place import Place
from arco.cli.settings import Flag

if TYPE_CHECKING:
    from arco.cli.report import Report
    from arco.core.scope import Scope
    from arco.storage.address import Address


def doctor(*, place: Place | None = None, deep: Flag = False, json: Flag = False) -> int:
    """Check this machine and a store, one promise at a time.

    Parameters
    ----------
    place
        The store and the workspace to look at.
    deep
        Look at all that the workspace holds, too: lists it, looks for what was lost, ends streams that
        their writers have left, and tells what it cannot repair.
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
    if deep and report.is_good:
        run(_look_deep(report, place, quiet=json))
    return 0 if report.close() else 1


async def _fill(report: "Report", address: "Address", scope: "Scope", *, fsync: bool) -> None:
    from arco.cli.examine import examine
    from arco.core.runtime import system_runtime

    async for finding in examine(address, scope, system_runtime(), fsync=fsync):
        report.add(finding)


async def _look_deep(report: "Report", place: Place, *, quiet: bool) -> None:
    """What the workspace holds, domain by domain; only where the store can be relied on."""
    from arco.cli.finding import trouble
    from arco.cli.inspecting import findings_of
    from arco.cli.progress import progress_bar
    from arco.compactor.anti_entropy import inspect
    from arco.compactor.domains import DOMAINS
    from arco.core.errors import ArcoError
    from arco.core.runtime import system_runtime
    from arco.storage.roles import Role
    from arco.storage.store import Store

    runtime = system_runtime()
    store = Store(place.backend(runtime), runtime, role=Role.JANITOR, scope=place.scope())
    for domain in DOMAINS:
        try:
            with progress_bar(f"looking at {domain}", quiet=quiet) as progress:
                found = await inspect(store, domain, progress=progress)
        except ArcoError as problem:
            is_local = place.address().scheme == "file"
            report.add(trouble(domain, problem, is_local=is_local))
            continue
        for finding in findings_of(found):
            report.add(finding)
