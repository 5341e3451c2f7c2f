"""Time zones: from a day on the calendar to a moment, and back."""

from datetime import UTC, date, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from arco.core.errors import Invalid

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EARLIEST = date(1000, 1, 1)
LATEST = date(9998, 12, 31)
"""Keys have years of four digits, and room on both sides for another zone's midnight."""

_YEARS_KNOWN = 2040
"""The zone database lists changes up to 2037; from then on one rule repeats itself."""


def zone(name: str) -> ZoneInfo:
    """The zone of this IANA name."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError, TypeError) as error:
        raise Invalid(
            f"{name!r} is not a time zone: write a name such as 'Europe/Paris' or 'UTC'"
        ) from error


def midnight(day: date, tz: ZoneInfo) -> datetime:
    """The moment in UTC at which a day begins there.

    Where the clocks skip midnight the day begins when they do; where they show it twice, at the first.
    """
    return datetime(day.year, day.month, day.day, tzinfo=tz).astimezone(UTC)


def into_the_hour_s(moment: datetime, tz: ZoneInfo) -> int:
    """How many seconds after the full hour in UTC the full hour of this zone is."""
    offset = moment.astimezone(tz).utcoffset()
    return -int(offset.total_seconds()) % 3600 if offset is not None else 0


@lru_cache(1024)
def hour_shift_s(tz: ZoneInfo, since: int) -> int:
    """The same for all time from a year on; Invalid where the zone moves by parts of an hour."""
    shifts = {
        into_the_hour_s(datetime(year, month, 1, tzinfo=UTC), tz)
        for year in range(since, max(since, _YEARS_KNOWN) + 1)
        for month in (1, 4, 7, 10)
    }
    if len(shifts) > 1:
        raise Invalid(
            f"hours of {tz.key} cannot be partitions: its clocks move by a part of an hour after "
            f"{since}; use tz='UTC' for the hours"
        )
    return shifts.pop()
