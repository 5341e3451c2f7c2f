"""The retention: one setting for all that forgets, and how often that is done."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from cyclopts import Parameter

from arco.core.errors import Invalid

_SHORTEST_DAYS = 2
_SHORTEST_RUN_DAYS = 1
_LONGEST_DAYS = 36_500
_LONGEST_HOURS = 8_760


@Parameter(name="*")
@dataclass(frozen=True)
class Retention:
    """The flag that says how long the past is kept.

    Parameters
    ----------
    retention_days
        How long old versions and dropped objects are kept: 2 days at least, and the same for every
        process of a workspace.
    """

    retention_days: Annotated[float, Parameter(metavar="N")] = 7

    def span(self) -> timedelta:
        """The retention, or `Invalid` with what would be right."""
        days = self.retention_days
        if not days >= _SHORTEST_DAYS:  # so that nan, which compares with nothing, is refused too
            raise Invalid(
                f"--retention-days takes {_SHORTEST_DAYS} or more, not {days:g}: an idempotency key lives "
                "a day, and the versions that it rests on have to outlive it"
            )
        if days > _LONGEST_DAYS:
            raise Invalid(f"--retention-days takes at most {_LONGEST_DAYS}, not {days:g}")
        return timedelta(days=days)

    def ms(self) -> int:
        """The retention in milliseconds."""
        return self.span() // timedelta(milliseconds=1)


@Parameter(name="*")
@dataclass(frozen=True)
class RunRetention:
    """The flag that says how long what runs leave behind is kept.

    Parameters
    ----------
    run_retention_days
        How long plans and logs of runs that are over are kept: 1 day at least.
    """

    run_retention_days: Annotated[float, Parameter(metavar="N")] = 30

    def ms(self) -> int:
        """The retention in milliseconds, or `Invalid` with what would be right."""
        days = self.run_retention_days
        if not _SHORTEST_RUN_DAYS <= days <= _LONGEST_DAYS:  # so that nan is refused too
            raise Invalid(
                f"--run-retention-days takes {_SHORTEST_RUN_DAYS} to {_LONGEST_DAYS}, not {days:g}"
            )
        return timedelta(days=days) // timedelta(milliseconds=1)


def pause_ms(hours: float) -> int | None:
    """The time between two collections, or None for none at all, or `Invalid`."""
    if not 0 <= hours <= _LONGEST_HOURS:
        raise Invalid(
            f"--collect-every takes 0 (never) to {_LONGEST_HOURS} hours, not {hours:g}: 6 is a good one"
        )
    return max(1, round(hours * 3_600_000)) if hours else None
