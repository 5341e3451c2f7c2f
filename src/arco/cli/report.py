"""The report of `arco doctor`: line by line for people, one document for programs."""

import sys

from arco.cli.output import print_document
from arco.server.finding import DoctorFinding, FindingStatus

FORMAT = 1

_MARKS = {
    FindingStatus.OK: ("✓", "ok", "green"),
    FindingStatus.NOTE: ("·", "note", "blue"),
    FindingStatus.WARNING: ("!", "warning", "yellow"),
    FindingStatus.FAILED: ("✗", "FAILED", "bold red"),
}
_NAME_WIDTH = 16


class Report:
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
