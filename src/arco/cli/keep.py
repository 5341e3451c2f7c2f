"""The flag that says how long rows of Tier 2 are kept."""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

from cyclopts import Parameter

from arco.core.errors import Invalid

_LONGEST_DAYS = 36_500


def _words(_kind: Any, text: str, **_how: Any) -> list[str]:
    """The values in the flag's variable, with spaces or commas between them."""
    return [word for word in re.split(r"[\s,]+", text) if word]


@Parameter(name="*")
@dataclass(frozen=True)
class Keep:
    """The flag that says how long rows are kept.

    Parameters
    ----------
    keep
        How long rows of a table are kept after they last changed, such as executions=90 for ninety days;
        may be repeated. Tables that are not named keep theirs for ever.
    """

    keep: Annotated[
        tuple[str, ...],
        Parameter(metavar="TABLE=DAYS", negative="", show_default=False, env_var_split=_words),
    ] = ()

    def spans(self) -> dict[str, timedelta]:
        """How long each table named keeps its rows, or `Invalid` with what would be right."""
        spans: dict[str, timedelta] = {}
        for text in self.keep:
            table, span = _span(text)
            if spans.setdefault(table, span) != span:
                raise Invalid(f"--keep names {table} twice: give one number of days")
        return spans

    def arguments(self) -> list[str]:
        """The same flags for a process of ours."""
        return [word for each in self.keep for word in ("--keep", each)]


def _span(text: str) -> tuple[str, timedelta]:
    table, found, number = text.partition("=")
    try:
        days = float(number) if found else 0.0
    except ValueError:
        days = 0.0
    if not 0 < days <= _LONGEST_DAYS:  # so that nan is refused too
        raise Invalid(f"--keep takes TABLE=DAYS, such as executions=90, not {text[:80]!r}")
    _check_table(table)
    return table, timedelta(days=days)


def _check_table(table: str) -> None:
    from arco.fold.tier2 import TIER2

    known = sorted({name for tables in TIER2.values() for name in tables})
    if table not in known:
        raise Invalid(f"--keep knows no table {table[:80]!r}: there are {', '.join(known)}")
