"""Retention of rows: from when on a table keeps what it was told (P20).

The bound moves by whole hours, so that it stays the same from one manifest to the next but seldom, and it
never moves back.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta


def raised(
    bounds: Mapping[str, datetime], retention: Mapping[str, timedelta], now: datetime
) -> dict[str, datetime]:
    """The bounds by table as they should be now."""
    hour = now.replace(minute=0, second=0, microsecond=0)
    new = dict(bounds)
    for table, keep in retention.items():
        bound = hour - keep
        new[table] = max(bound, new.get(table, bound))
    return new


def is_overdue(
    bounds: Mapping[str, datetime], retention: Mapping[str, timedelta], now: datetime
) -> bool:
    """Whether the bounds are so old that they are worth a manifest of their own."""
    return any(
        table not in bounds or bound - bounds[table] >= timedelta(days=1)
        for table, bound in raised(bounds, retention, now).items()
    )
