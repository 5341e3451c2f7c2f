"""Queries put together from parts, so that there is one place where a caller's text becomes SQL."""

from collections.abc import Sequence
from dataclasses import dataclass


def literal(text: str) -> str:
    """A text as a literal of SQL: a quote is written twice, and nothing else means anything in one."""
    return "'" + text.replace("'", "''") + "'"


def equal(column: str, text: str) -> str:
    """That a column has this very text."""
    return f"{column} = {literal(text)}"


@dataclass(frozen=True)
class Select:
    """One query over a table of `system`, or over another query. Everything but literals is ours."""

    table: "str | Select"
    columns: Sequence[str]
    where: Sequence[str] = ()
    group_by: Sequence[str] = ()
    order_by: Sequence[str] = ()
    limit: int | None = None

    def __str__(self) -> str:
        source = f"system.{self.table}" if isinstance(self.table, str) else f"({self.table})"
        parts = [f"SELECT {', '.join(self.columns)} FROM {source}"]  # noqa: S608 - see above
        if self.where:
            parts.append("WHERE " + " AND ".join(f"({each})" for each in self.where))
        if self.group_by:
            parts.append("GROUP BY " + ", ".join(self.group_by))
        if self.order_by:
            parts.append("ORDER BY " + ", ".join(self.order_by))
        if self.limit is not None:
            parts.append(f"LIMIT {self.limit}")
        return " ".join(parts)
