"""Marks: how each partition of a table stands, in a letter."""

from collections.abc import Collection, Iterable
from enum import StrEnum

from arco.flow.plan.context import TableIndex


class Mark(StrEnum):
    """The letter for a partition."""

    COMPLETE = "C"
    STALE = "S"
    RUNNING = "R"
    FAILED_OLDER_DATA_SERVED = "O"
    FAILED_NEVER_MADE = "F"
    MISSING = "."

    @property
    def word(self) -> str:
        """What the letter stands for."""
        return _WORDS.get(self.name, self.name.lower())

    @property
    def status(self) -> str:
        """The status alone, whether or not older data are served."""
        return self.name.partition("_")[0]


_WORDS = {
    "FAILED_OLDER_DATA_SERVED": "failed, older data served",
    "FAILED_NEVER_MADE": "failed, never made",
}


STYLES = {
    Mark.COMPLETE: "green",
    Mark.STALE: "yellow",
    Mark.RUNNING: "cyan",
    Mark.FAILED_OLDER_DATA_SERVED: "red",
    Mark.FAILED_NEVER_MADE: "bold red",
    Mark.MISSING: "dim",
}


def marks_of(
    table: TableIndex,
    existing: Iterable[str],
    stale: Collection[str],
    current: Collection[str] = (),
) -> dict[str, Mark]:
    """A mark for each partition: those that exist by the calendar, and those that are known besides.

    `current` are those whose data are what would be made now, whatever became of the last attempt.
    Of a source that tells no partitions apart all are there once it is, as planning sees it.
    """
    keys, state = list(existing), table.state
    marks = {
        key: Mark.MISSING if material is None else Mark.COMPLETE
        for key, material in zip(keys, table.materials(keys), strict=True)
    }
    for key, status, material in zip(state.keys, state.statuses, state.materials, strict=True):
        is_over = status == "FAILED" and key in current
        marks[key] = _mark("COMPLETE" if is_over else status, material, is_stale=key in stale)
    return marks


def _mark(status: str, material: str | None, *, is_stale: bool) -> Mark:
    if status == "FAILED":
        return Mark.FAILED_NEVER_MADE if material is None else Mark.FAILED_OLDER_DATA_SERVED
    if status == "RUNNING":
        return Mark.RUNNING
    if material is None and status != "COMPLETE":
        return Mark.MISSING
    return Mark.STALE if is_stale else Mark.COMPLETE
