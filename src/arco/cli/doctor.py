"""`arco doctor`: whether this machine, with this store, can keep Arco's promises."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from arco.cli.settings import Flag, Name, address_of, describe, scope_of

if TYPE_CHECKING:
    from arco.cli.report import Report
    from arco.core.scope import Scope
    from arco.storage.address import Address


def doctor(
    *,
    root: Annotated[str | None, Parameter(metavar="DIR")] = None,
    store: Annotated[str | None, Parameter(metavar="URL")] = None,
    tenant: Name = "default",
    workspace: Name = "default",
    json: Flag = False,
    no_fsync: Flag = False,
) -> int:
    """Check this machine and a store, one promise at a time.

    Parameters
    ----------
    root
        A local directory; ./.arco if neither this nor a store is given.
    store
        A store by its URL: s3://bucket/prefix, gs://bucket, az://container?account=name, file:///dir
        or memory://. ARCO_STORAGE_BUCKET works too.
    tenant
        The tenant to look at.
    workspace
        The workspace to look at.
    json
        Print one JSON document.
    no_fsync
        Do not wait for the disk: for tests, never for data.
    """
    from arco import __version__
    from arco.cli.report import Report
    from arco.core.tasks import run

    address = address_of(root, store)
    scope = scope_of(tenant, workspace)
    subject = {
        "arco": __version__,
        "store": describe(address),
        "tenant": scope.tenant,
        "workspace": scope.workspace,
    }
    report = Report(subject, as_json=json)
    run(_fill(report, address, scope, fsync=not no_fsync))
    return 0 if report.close() else 1


async def _fill(report: "Report", address: "Address", scope: "Scope", *, fsync: bool) -> None:
    from arco.cli.examine import examine
    from arco.core.runtime import system_runtime

    async for finding in examine(address, scope, system_runtime(), fsync=fsync):
        report.add(finding)
