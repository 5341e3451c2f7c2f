"""`arco doctor`: whether this machine, with this store, can keep the guarantees of Arco."""

import sys

from arco.cli.output import print_document
from arco.cli.settings import Flag
from arco.server.finding import DoctorFinding, FindingStatus
from arco.server.locations import AllowedLocations
from arco.server.workspace_address import WorkspaceAddress

FORMAT = 1

_MARKS = {
    FindingStatus.OK: ("✓", "ok", "green"),
    FindingStatus.NOTE: ("·", "note", "blue"),
    FindingStatus.WARNING: ("!", "warning", "yellow"),
    FindingStatus.FAILED: ("✗", "FAILED", "bold red"),
}
_NAME_WIDTH = 16


class DoctorReport:
    """Findings as they come in."""

    def __init__(self, subject: dict[str, str], *, as_json: bool) -> None:
        self._subject = subject
        self._as_json = as_json
        self._findings: list[DoctorFinding] = []
        if not as_json:
            words = ", ".join(f"{name} {value}" for name, value in subject.items())
            print(words, end="\n\n", flush=True)

    def add(self, finding: DoctorFinding) -> None:
        """Take note, and show it to people at once: some checks take their time."""
        self._findings.append(finding)
        if not self._as_json:
            _show(finding)

    @property
    def is_good(self) -> bool:
        """Whether nothing has failed so far."""
        return all(each.status is not FindingStatus.FAILED for each in self._findings)

    def close(self) -> bool:
        """Finish the output; whether all is well."""
        failed = [each.name for each in self._findings if each.status is FindingStatus.FAILED]
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


def _show(finding: DoctorFinding) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    symbol, word, style = _MARKS[finding.status]
    mark = symbol if console.encoding.startswith("utf") else word
    line = Text.assemble("  ", (mark, style), f" {finding.name:<{_NAME_WIDTH}} {finding.figure}")
    console.print(line)
    if finding.next_step:
        console.print(Text(f"      {finding.next_step}", style="" if style == "blue" else style))


def doctor(
    *,
    address: WorkspaceAddress | None = None,
    locations: AllowedLocations | None = None,
    deep: Flag = False,
    json: Flag = False,
) -> int:
    """Check this machine and a store, one promise at a time.

    Parameters
    ----------
    address
        The store and the workspace to look at.
    locations
        Places outside the store that hold tables, as for the server; only --deep reads them.
    deep
        Also check everything in the workspace: list its objects, look for lost ones, seal streams that
        their writers have left, resolve the pointer of every Iceberg table, and report what cannot be
        repaired.
    json
        Print one JSON document.
    """
    from arco import __version__
    from arco.core.tasks import run

    address = address or WorkspaceAddress()
    scope = address.scope()
    subject = {
        "arco": __version__,
        "store": address.describe(),
        "tenant": scope.tenant,
        "workspace": scope.workspace,
    }
    report = DoctorReport(subject, as_json=json)
    run(_check_store(report, address))
    if deep and report.is_good:
        run(_check_workspace(report, address, locations or AllowedLocations(), quiet=json))
    return 0 if report.close() else 1


async def _check_store(report: DoctorReport, address: WorkspaceAddress) -> None:
    from arco.core.runtime import system_runtime
    from arco.server.doctor import check_store

    async for finding in check_store(address, system_runtime()):
        report.add(finding)


async def _check_workspace(
    report: DoctorReport, address: WorkspaceAddress, locations: AllowedLocations, *, quiet: bool
) -> None:
    """The content of the workspace, domain by domain; only where the store passed its checks."""
    from functools import partial

    from arco.cli.output import progress_bar
    from arco.core.runtime import system_runtime
    from arco.server.doctor import check_workspace

    show_progress = partial(progress_bar, quiet=quiet)
    async for finding in check_workspace(address, locations, system_runtime(), show_progress):
        report.add(finding)
