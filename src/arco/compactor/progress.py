"""Progress of long operations, whose total becomes known only step by step."""

from collections.abc import Callable

Progress = Callable[[int, int], None]  # done, and the total so far


class ProgressCounter:
    """Counts steps, and reports each change."""

    def __init__(self, report: Progress | None) -> None:
        self._report = report
        self._done = 0
        self._total = 0

    def expect(self, more: int) -> None:
        """Add to the total."""
        self._total += more
        self._changed()

    def step(self) -> None:
        """One step is done."""
        self._done += 1
        self._changed()

    def _changed(self) -> None:
        if self._report is not None:
            self._report(self._done, self._total)
