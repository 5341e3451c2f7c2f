"""Hours on the clocks of a zone.

When the clocks go back, an hour is shown twice. The first is written as ever, the second with its offset
from UTC: `2026-10-25T02`, then `2026-10-25T02+0100`. So every hour has one name, and names sort as text
in the order of time. The hour that is skipped in spring has no name.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from itertools import chain
from typing import ClassVar

from arco.core.errors import Invalid
from arco.flow.partition.timed import Timed
from arco.flow.partition.zone import EARLIEST, EPOCH, LATEST, hour_shift_s, into_the_hour_s

_DAY = 24
_HOURS = tuple(f"{hour:02}" for hour in range(_DAY))
_HOUR = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2})([+-][0-9]{4})?")


@dataclass(frozen=True)
class Hourly(Timed):
    """Hours, `2026-01-15T06`."""

    grain: ClassVar[str] = "an hour"
    example: ClassVar[str] = "2026-01-15T06"

    @cached_property
    def shift_s(self) -> int:
        """How long after the full hour in UTC the hours begin: 1800 in India."""
        given = self.start
        year = int(given[:4]) if isinstance(given, str) else given.year
        return hour_shift_s(self.zone, year)

    @property
    def lowest(self) -> int:
        return _hours(datetime(EARLIEST.year, 1, 1, tzinfo=UTC))

    @property
    def highest(self) -> int:
        return _hours(datetime(LATEST.year, 12, 31, tzinfo=UTC))

    def value(self, position: int) -> str:
        local = self.begin(position).astimezone(self.zone)
        text = local.replace(tzinfo=None).isoformat(timespec="hours")
        return f"{text}{local:%z}" if local.fold else text

    def values_at(self, positions: Iterable[int]) -> Iterator[str]:
        """As `value`, but a day at a time where the clocks are left alone for a day around."""
        if not isinstance(positions, range) or positions.step != 1:
            return map(self.value, positions)
        days = (positions[at : at + _DAY] for at in range(0, len(positions), _DAY))
        return chain.from_iterable(map(self._values_of_a_day, days))

    def _values_of_a_day(self, hours: range) -> Iterable[str]:
        offset_s = self._offset_s(hours.start)
        around = (hours.start - _DAY, hours.start + _DAY)
        if len(hours) < _DAY or any(self._offset_s(each) != offset_s for each in around):
            return map(self.value, hours)
        first = (hours.start * 3600 + self.shift_s + offset_s) // 3600
        day, hour = divmod(first, _DAY)
        today, tomorrow = (
            date.fromordinal(EPOCH.toordinal() + each).isoformat() for each in (day, day + 1)
        )
        return [f"{today}T{each}" for each in _HOURS[hour:]] + [
            f"{tomorrow}T{each}" for each in _HOURS[:hour]
        ]

    def _offset_s(self, position: int) -> int:
        offset = self.begin(position).astimezone(self.zone).utcoffset()
        return int(offset.total_seconds()) if offset is not None else 0

    def position(self, value: str) -> int:
        found = _HOUR.fullmatch(value)
        try:
            naive = datetime.fromisoformat(found[1]) if found else None
        except ValueError:
            raise self.not_a_key(value, ", the calendar has no such") from None
        if found is None or naive is None or not EARLIEST <= naive.date() <= LATEST:
            raise self.not_a_key(value)
        moment = naive.replace(tzinfo=self.zone, fold=int(found[2] is not None)).astimezone(UTC)
        position = self.position_at(moment)
        if self.value(position) != value:
            raise self.not_a_key(value, self._why_not(found[2]))
        return position

    def begin(self, position: int) -> datetime:
        return EPOCH + timedelta(seconds=position * 3600 + self.shift_s)

    def position_at(self, moment: datetime) -> int:
        if into_the_hour_s(moment, self.zone) != self.shift_s:
            raise Invalid(
                f"the hours of {self.tz} at {moment.isoformat()} do not follow those of "
                f"{self.start}: its clocks moved by a part of an hour; use tz='UTC'"
            )
        return _hours(moment - timedelta(seconds=self.shift_s))

    def _why_not(self, offset: str | None) -> str:
        if offset is None:
            return f", the clocks of {self.tz} skip it"
        return (
            f", only the second of two hours that the clocks of {self.tz} show alike has an offset"
        )


def _hours(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(hours=1)
