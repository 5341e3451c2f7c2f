"""The dimensions of time: hours, days, weeks and months of a time zone.

A day lasts from midnight to midnight in its zone: 23 or 25 hours when the clocks change, and no time at all
where a zone skipped a day by crossing the date line. Weeks are those of ISO 8601 and begin on Monday.

When clocks go back, one hour occurs twice. The first is written as usual, the second with its offset from
UTC: `2026-10-25T02`, then `2026-10-25T02+0100`. So every hour has one key, and keys sort as text in the
order of time. The hour that is skipped in spring has no key.
"""

import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from itertools import chain
from typing import ClassVar

from arco.core.errors import Invalid
from arco.flow.partition.time_dimension import (
    EARLIEST,
    EPOCH,
    LATEST,
    TimeDimension,
    hour_shift_s,
    into_the_hour_s,
    midnight,
)

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_WEEK = re.compile(r"([0-9]{4})-W([0-9]{2})")
_MONTH = re.compile(r"([0-9]{4})-([0-9]{2})")


@dataclass(frozen=True)
class CalendarDimension(TimeDimension):
    """A dimension whose partitions consist of full days."""

    @abstractmethod
    def first_day(self, position: int) -> date:
        """The first day of the partition at a position."""

    @abstractmethod
    def position_of_day(self, day: date) -> int:
        """The position of the partition that holds a day."""

    @abstractmethod
    def read(self, value: str) -> date | None:
        """The first day of the partition with this key.

        None if the text does not have the form of a key, ValueError if the calendar has no such date.
        """

    @property
    def lowest(self) -> int:
        return self.position_of_day(EARLIEST)

    @property
    def highest(self) -> int:
        return self.position_of_day(LATEST)

    def position(self, value: str) -> int:
        try:
            day = self.read(value)
        except ValueError:
            raise self.not_a_key(value, ", the calendar has no such") from None
        if day is None or not EARLIEST <= day <= LATEST:
            raise self.not_a_key(value)
        return self.position_of_day(day)

    def begin(self, position: int) -> datetime:
        return midnight(self.first_day(position), self.zone)

    def position_at(self, moment: datetime) -> int:
        utc = moment.astimezone(UTC)
        position = self.position_of_day(utc.astimezone(self.zone).date())
        # Clocks that go back across midnight show the previous day again, but its partition has ended.
        while utc < self.begin(position):
            position -= 1
        while utc >= self.begin(position + 1):
            position += 1
        return position


@dataclass(frozen=True)
class Daily(CalendarDimension):
    """Days, `2026-01-15`."""

    grain: ClassVar[str] = "a day"
    example: ClassVar[str] = "2026-01-15"

    def value(self, position: int) -> str:
        return self.first_day(position).isoformat()

    def read(self, value: str) -> date | None:
        return date.fromisoformat(value) if _DAY.fullmatch(value) else None

    def first_day(self, position: int) -> date:
        return date.fromordinal(position)

    def position_of_day(self, day: date) -> int:
        return day.toordinal()


@dataclass(frozen=True)
class Weekly(CalendarDimension):
    """Weeks of ISO 8601, `2026-W03`; the first week of a year contains its first Thursday."""

    grain: ClassVar[str] = "a week"
    example: ClassVar[str] = "2026-W03"

    def value(self, position: int) -> str:
        year, week, _ = self.first_day(position).isocalendar()
        return f"{year:04}-W{week:02}"

    def read(self, value: str) -> date | None:
        match = _WEEK.fullmatch(value)
        return date.fromisocalendar(int(match[1]), int(match[2]), 1) if match else None

    def first_day(self, position: int) -> date:
        return date.fromordinal(position * 7 + 1)

    def position_of_day(self, day: date) -> int:
        return (day.toordinal() - 1) // 7  # the first day of the calendar was a Monday


@dataclass(frozen=True)
class Monthly(CalendarDimension):
    """Months, `2026-01`."""

    grain: ClassVar[str] = "a month"
    example: ClassVar[str] = "2026-01"

    def value(self, position: int) -> str:
        day = self.first_day(position)
        return f"{day.year:04}-{day.month:02}"

    def read(self, value: str) -> date | None:
        match = _MONTH.fullmatch(value)
        return date(int(match[1]), int(match[2]), 1) if match else None

    def first_day(self, position: int) -> date:
        return date(position // 12, position % 12 + 1, 1)

    def position_of_day(self, day: date) -> int:
        return day.year * 12 + day.month - 1


_DAY_HOURS = 24
_HOURS = tuple(f"{hour:02}" for hour in range(_DAY_HOURS))
_HOUR = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2})([+-][0-9]{4})?")


@dataclass(frozen=True)
class Hourly(TimeDimension):
    """Hours, `2026-01-15T06`."""

    grain: ClassVar[str] = "an hour"
    example: ClassVar[str] = "2026-01-15T06"

    @cached_property
    def shift_s(self) -> int:
        """The seconds after the full UTC hour at which hours begin: 1800 in India."""
        start = self.start
        year = int(start[:4]) if isinstance(start, str) else start.year
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
        """Like `value`, but formats a day at a time where no clock change is within a day."""
        if not isinstance(positions, range) or positions.step != 1:
            return map(self.value, positions)
        days = (positions[at : at + _DAY_HOURS] for at in range(0, len(positions), _DAY_HOURS))
        return chain.from_iterable(map(self._values_of_a_day, days))

    def _values_of_a_day(self, hours: range) -> Iterable[str]:
        offset_s = self._offset_s(hours.start)
        around = (hours.start - _DAY_HOURS, hours.start + _DAY_HOURS)
        if len(hours) < _DAY_HOURS or any(self._offset_s(each) != offset_s for each in around):
            return map(self.value, hours)
        first = (hours.start * 3600 + self.shift_s + offset_s) // 3600
        day, hour = divmod(first, _DAY_HOURS)
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
        match = _HOUR.fullmatch(value)
        try:
            naive = datetime.fromisoformat(match[1]) if match else None
        except ValueError:
            raise self.not_a_key(value, ", the calendar has no such") from None
        if match is None or naive is None or not EARLIEST <= naive.date() <= LATEST:
            raise self.not_a_key(value)
        moment = naive.replace(tzinfo=self.zone, fold=int(match[2] is not None)).astimezone(UTC)
        position = self.position_at(moment)
        if self.value(position) != value:
            raise self.not_a_key(value, self._why_not(match[2]))
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
