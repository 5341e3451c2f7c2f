"""`arco doctor`: whether this machine, with this store, can keep the guarantees of Arco."""

import sys
from typing import TYPE_CHECKING

from arco.cli.finding import Finding, Status
from arco.cli.locations import AllowedLocations
from arco.cli.output import print_document
from arco.cli.place import Place
from arco.cli.settings import Flag

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arco.cli.finding import Finding
    from arco.core.scope import Scope
    from arco.iceberg.pointer_check import PointerReport
    from arco.storage.address import Address

FORMAT = 1

_MARKS = {
    Status.OK: ("✓", "ok", "green"),
    Status.NOTE: ("·", "note", "blue"),
    Status.WARNING: ("!", "warning", "yellow"),
    Status.FAILED: ("✗", "FAILED", "bold red"),
}
_NAME_WIDTH = 16


class DoctorReport:
    """Findings as they come in."""

    def __init__(self, subject: dict[str, str], *, as_json: bool) -> None:
        self._subject = subject
        self._as_json = as_json
        self._findings: list[Finding] = []
        if not as_json:
            words = ", ".join(f"{name} {value}" for name, value in subject.items())
            print(words, end="\n\n", flush=True)

    def add(self, finding: Finding) -> None:
        """Take note, and show it to people at once: some checks take their time."""
        self._findings.append(finding)
        if not self._as_json:
            _show(finding)

    @property
    def is_good(self) -> bool:
        """Whether nothing has failed so far."""
        return all(each.status is not Status.FAILED for each in self._findings)

    def close(self) -> bool:
        """Finish the output; whether all is well."""
        failed = [each.name for each in self._findings if each.status is Status.FAILED]
        bad = list(dict.fromkeys(failed))
        if self._as_json:
            checks = self._findings
            print_document(
                {"format": FORMAT, "ok": not bad, "subject": self._subject, "checks": checks}
            )
        elif not bad:
            print("\nAll is well.")
        if bad:
            sys.stdout.flush()
            count = f"{len(failed)} of {len(self._findings)} checks failed"
            print(f"arco: {count}: {', '.join(bad)}.", file=sys.stderr)
        return not bad


def _show(finding: Finding) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    symbol, word, style = _MARKS[finding.status]
    mark = symbol if console.encoding.startswith("utf") else word
    line = Text.assemble("  ", (mark, style), f" {finding.name:<{_NAME_WIDTH}} {finding.figure}")
    console.print(line)
    if finding.next_step:
        console.print(Text(f"      {finding.next_step}", style="" if style == "blue" else style))


ICEBERG = "iceberg tables"


def doctor(
    *,
    place: Place | None = None,
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
    from arco.core.tasks import run

    place = place or Place()
    scope = place.scope()
    subject = {
        "arco": __version__,
        "store": place.describe(),
        "tenant": scope.tenant,
        "workspace": scope.workspace,
    }
    report = DoctorReport(subject, as_json=json)
    run(_fill(report, place.address(), scope, fsync=not place.no_fsync))
    if deep and report.is_good:
        run(_look_deep(report, place, locations or AllowedLocations(), quiet=json))
    return 0 if report.close() else 1


async def _fill(report: "DoctorReport", address: "Address", scope: "Scope", *, fsync: bool) -> None:
    from arco.cli.examine import examine
    from arco.core.runtime import system_runtime

    async for finding in examine(address, scope, system_runtime(), fsync=fsync):
        report.add(finding)


async def _look_deep(
    report: "DoctorReport", place: Place, locations: AllowedLocations, *, quiet: bool
) -> None:
    """What the workspace holds, domain by domain; only where the store can be relied on."""
    from arco.cli.finding import trouble
    from arco.cli.inspecting import findings_of
    from arco.cli.output import progress_bar
    from arco.cli.pointers import resolve_pointers
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
                inspection = await inspect(store, domain, progress=progress)
        except ArcoError as problem:
            is_local = place.address().scheme == "file"
            report.add(trouble(domain, problem, is_local=is_local))
            continue
        for finding in findings_of(inspection):
            report.add(finding)
    try:
        resolved = await resolve_pointers(place, store, locations, quiet=quiet)
    except ArcoError as problem:
        report.add(trouble(ICEBERG, problem, is_local=place.address().scheme == "file"))
        return
    for finding in _findings_of_pointers(resolved):
        report.add(finding)


def _findings_of_pointers(resolved: "PointerReport") -> "Iterator[Finding]":
    from arco.cli.finding import failed, ok
    from arco.cli.pointers import NEXT_STEP

    if resolved.ok:
        yield ok(ICEBERG, f"{resolved.tables} tables, every metadata file is there")
        return
    for each in resolved.problems:
        yield failed(ICEBERG, f"table {each.table}: {each.path} {each.explanation}", NEXT_STEP)
    if more := resolved.failed - len(resolved.problems):
        yield failed(ICEBERG, f"{more} tables more cannot be read", NEXT_STEP)
