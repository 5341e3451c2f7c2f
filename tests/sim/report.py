"""Reports: what a run of many seeds did, added up, as a table."""

from collections import Counter
from collections.abc import Mapping

_FIRST = (
    "seeds",
    "steps",
    "requests",
    "crashes",
    "restarts",
    "suspends",
    "stalls",
    "clock jumps",
    "outages",
    "pranks",
)
_LAST = ("acknowledged", "conflicts", "unknowns", "violations")


class Report:
    """Counters of each scenario over all its seeds."""

    def __init__(self) -> None:
        self._tallies: dict[str, Counter[str]] = {}

    def add(self, scenario: str, tally: Mapping[str, int]) -> None:
        """One more seed."""
        self._tallies.setdefault(scenario, Counter()).update(tally)

    def total(self, counter: str) -> int:
        """One counter over all scenarios."""
        return sum(tally[counter] for tally in self._tallies.values())

    def table(self) -> str:
        """One row for each counter, one column for each scenario."""
        names = sorted(self._tallies)
        rows = [["", *names]]
        rows += [
            [counter, *(f"{self._tallies[name][counter]:,}" for name in names)]
            for counter in self._counters()
        ]
        widths = [max(len(row[column]) for row in rows) for column in range(len(names) + 1)]
        return "\n".join(_line(row, widths) for row in rows)

    def _counters(self) -> list[str]:
        seen = {counter for tally in self._tallies.values() for counter in tally}
        others = sorted(seen.difference(_FIRST, _LAST))
        return [*_FIRST, *others, *_LAST]


def _line(row: list[str], widths: list[int]) -> str:
    label, *cells = row
    padded = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
    return "  ".join([label.ljust(widths[0]), *padded]).rstrip()
