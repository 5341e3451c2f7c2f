"""A figure of a benchmark, and the table that they make."""

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Figure:
    """One line of the table; `met` is None where nothing was promised."""

    what: str
    value: str
    baseline: str = ""
    ratio: str = ""
    promised: str = ""
    met: bool | None = None


def print_table(title: str, figures: list[Figure]) -> bool:
    """Print the figures; whether every promise was met."""
    table = Table(title=title, title_justify="left", show_lines=False)
    for column in ("figure", "measured", "baseline", "ratio", "promised", ""):
        table.add_column(column, justify="left" if column == "figure" else "right")
    for each in figures:
        mark = {True: "met", False: "[bold red]MISSED[/]", None: ""}[each.met]
        table.add_row(each.what, each.value, each.baseline, each.ratio, each.promised, mark)
    Console(width=150).print(table)
    return all(each.met is not False for each in figures)


def percentile(values: list[float], share: float) -> float:
    """The value below which `share` of all lie."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]
