"""`arco verify`: whether everything that is published is what it was when it was published."""

import re
from functools import partial
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from arco.cli.settings import Flag
from arco.server.locations import AllowedLocations
from arco.server.workspace_address import WorkspaceAddress

if TYPE_CHECKING:
    from arco.compactor.verification import Anchor
    from arco.compactor.verification_report import VerificationReport
    from arco.iceberg.pointer_check import PointerReport

CATALOG = "catalog"

_ANCHOR = re.compile(r"(?:([a-z]+):)?([0-9]{1,18}):([0-9a-f]{64})")


def verify(
    *,
    address: WorkspaceAddress | None = None,
    locations: AllowedLocations | None = None,
    domain: Annotated[str | None, Parameter(metavar="NAME")] = None,
    every: Annotated[Flag, Parameter(name="--all")] = False,
    expect: Annotated[
        tuple[str, ...], Parameter(metavar="N:SHA256", negative="", show_default=False)
    ] = (),
    json: Flag = False,
) -> int:
    """Check manifests, commits and files against their hashes, and report the first problem.

    Then resolve the pointer of every Iceberg table, and name each that leads nowhere.

    Parameters
    ----------
    address
        The store of the workspace.
    locations
        Places outside the store that hold tables, as for the server.
    domain
        Check only this domain: catalog, executions, lineage or search. Iceberg tables belong to catalog.
    every
        Check the files of all kept versions, not only of the newest.
    expect
        A version and its hash, as an earlier run printed them: the history must still contain it.
        May be repeated, once per domain.
    json
        Print one JSON document.
    """
    from arco.cli.output import print_document
    from arco.core.tasks import run

    address, domains = address or WorkspaceAddress(), _domains(domain)
    anchors = _anchors(expect, domains)
    reports = run(_verify(address, domains, anchors, every=every, quiet=json))
    if all(report.ok and report.head < 0 for report in reports):
        reports[0] = _empty_report(reports[0], address, quiet=json)
    is_sound = all(report.ok for report in reports)
    pointers: PointerReport | None = None
    if is_sound and CATALOG in domains:  # else the list of tables is not to be relied on
        pointers = run(_resolve(address, locations or AllowedLocations(), quiet=json))
    is_ok = is_sound and (pointers is None or pointers.ok)
    if json:
        wrong = next((report.problem for report in reports if report.problem), None)
        by_name = {report.domain: report for report in reports}
        print_document({"ok": is_ok, "problem": wrong, "domains": by_name, "iceberg": pointers})
    else:
        _print_reports(reports)
        if pointers is not None:
            _print_pointers(pointers)
    return 0 if is_ok else 1


async def _resolve(
    address: WorkspaceAddress, locations: AllowedLocations, *, quiet: bool
) -> "PointerReport":
    from arco.cli.output import progress_bar
    from arco.core.runtime import system_runtime
    from arco.server.doctor import resolve_pointers
    from arco.storage.roles import Role
    from arco.storage.store import Store

    runtime = system_runtime()
    store = Store(address.backend(runtime), runtime, role=Role.JANITOR, scope=address.scope())
    return await resolve_pointers(address, store, locations, partial(progress_bar, quiet=quiet))


def _print_pointers(report: "PointerReport") -> None:
    from arco.server.doctor import POINTER_NEXT_STEP

    if report.ok and report.tables:
        print(
            f"Resolved the pointers of {report.tables} Iceberg tables: every metadata file is there."
        )
    for problem in report.problems:
        print(
            f"WRONG: table {problem.table} ({problem.table_id}): {problem.path} {problem.explanation}."
        )
    if more := report.failed - len(report.problems):
        print(f"WRONG: and {more} tables more.")
    if not report.ok:
        print(
            f"{report.failed} of {report.tables} Iceberg tables cannot be read. {POINTER_NEXT_STEP}"
        )


async def _verify(
    address: WorkspaceAddress,
    domains: tuple[str, ...],
    anchors: "dict[str, Anchor]",
    *,
    every: bool,
    quiet: bool,
) -> "list[VerificationReport]":
    from arco.cli.output import progress_bar
    from arco.compactor.verification import verify as check
    from arco.core.runtime import system_runtime
    from arco.storage.roles import Role
    from arco.storage.store import Store

    runtime = system_runtime()
    backend = address.backend(runtime)
    # Opened without the write test of other stores: read access is enough to verify.
    store = Store(backend, runtime, role=Role.JANITOR, scope=address.scope())
    reports = []
    for domain in domains:
        with progress_bar(f"verifying {domain}", quiet=quiet) as progress:
            anchor = anchors.get(domain)
            report = await check(store, domain, everything=every, expect=anchor, progress=progress)
        reports.append(report)
    return reports


def _empty_report(
    report: "VerificationReport", address: WorkspaceAddress, *, quiet: bool
) -> "VerificationReport":
    """Nothing to check is no success: more often than new, a workspace is misspelt."""
    import msgspec

    from arco.compactor.verification_report import ProblemKind, VerificationProblem
    from arco.core.errors import NotFound

    scope = address.scope()
    explanation = f"nothing was published in tenant {scope.tenant}, workspace {scope.workspace}"
    if not quiet:
        missing = NotFound(f"{explanation} of {address.describe()}, so nothing was checked")
        missing.add_note("Check --root or --store, --tenant and --workspace.")
        raise missing
    path = f"manifests/{report.domain}/"
    problem = VerificationProblem(kind=ProblemKind.MANIFEST, path=path, explanation=explanation)
    return msgspec.structs.replace(report, ok=False, problem=problem)


def _domains(name: str | None) -> tuple[str, ...]:
    from arco.compactor.domains import DOMAINS
    from arco.core.errors import Invalid

    if name is None:
        return DOMAINS
    if name not in DOMAINS:
        raise Invalid(f"--domain takes one of {', '.join(DOMAINS)}, not {name[:40]!r}")
    return (name,)


def _anchors(texts: tuple[str, ...], domains: tuple[str, ...]) -> "dict[str, Anchor]":
    """What is expected, by domain; a version without one is of the catalog, or of the one to check."""
    from arco.core.errors import Invalid

    anchors: dict[str, Anchor] = {}
    for text in texts:
        match = _ANCHOR.fullmatch(text)
        if match is None:
            raise Invalid(
                "--expect takes a version and its hash, such as 12:9f86d08... or "
                "executions:12:9f86d08..., as verify prints"
            )
        domain = match[1] or domains[0]
        if domain not in domains or domain in anchors:
            raise Invalid(f"--expect takes one version of each domain that is checked, not {text}")
        anchors[domain] = (int(match[2]), match[3])
    return anchors


def _print_reports(reports: "list[VerificationReport]") -> None:
    for report in reports:
        if report.head >= 0 or not report.ok:
            _print_report(report)
    if not all(report.ok for report in reports):
        print("Stop writing to this store, and restore that object from a backup.")


def _print_report(report: "VerificationReport") -> None:
    from arco.fold.tier1 import DOMAIN

    checked, is_catalog = report.checked, report.domain == DOMAIN
    events = f"{checked.events} events, " if is_catalog else ""
    links = "leases, streams and keys" if is_catalog else "streams"
    start = "Checked" if is_catalog else f"{report.domain}: checked"
    print(
        f"{start} versions {report.floor} to {report.head}: {checked.manifests} manifests, "
        f"{checked.commits} commits, {checked.files} files with {checked.rows} rows, {events}"
        f"{checked.links} numbers of {links}."
    )
    if report.problem is None:
        name = "" if is_catalog else f"{report.domain}:"
        print(f"All is as it was published. Anchor: {name}{report.head}:{report.head_sha256}")
    else:
        print(f"WRONG: {report.problem.path}: {report.problem.explanation}.")
