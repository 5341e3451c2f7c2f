"""Days, weeks and months on the calendar of a zone.

A day goes from midnight to midnight there: 23 or 25 hours when the clocks change, and none at all where
a zone has skipped a day by crossing the date line. Weeks are those of ISO 8601 and begin on Monday.
"""

import re
from abc import abstractmethod
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import ClassVar

from arco.flow.partition.timed import Timed
from arco.flow.partition.zone import EARLIEST, LATEST, midnight

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_WEEK = re.compile(r"([0-9]{4})-W([0-9]{2})")
_MONTH = re.compile(r"([0-9]{4})-([0-9]{2})")


@dataclass(frozen=True)
class Calendar(Timed):
    """A dimension whose partitions are made of whole days."""

    @abstractmethod
    def first_day(self, position: int) -> date:
        """The first day of the partition at a position."""

    @abstractmethod
    def position_of_day(self, day: date) -> int:
        """The position of the partition that holds a day."""

    @abstractmethod
    def read(self, value: str) -> date | None:
        """The first day of what a key says, None if it is not spelled as one; may raise ValueError."""

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
        # Clocks that go back over midnight show yesterday again, but its partition is over.
        while utc < self.begin(position):
            position -= 1
        while utc >= self.begin(position + 1):
            position += 1
        return position


@dataclass(frozen=True)
class Daily(Calendar):
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
class Weekly(Calendar):
    """Weeks of ISO 8601, `2026-W03`; the first one of a year is the one with its first Thursday."""

    grain: ClassVar[str] = "a week"
    example: ClassVar[str] = "2026-W03"

    def value(self, position: int) -> str:
        year, week, _ = self.first_day(position).isocalendar()
        return f"{year:04}-W{week:02}"

    def read(self, value: str) -> date | None:
        found = _WEEK.fullmatch(value)
        return date.fromisocalendar(int(found[1]), int(found[2]), 1) if found else None

    def first_day(self, position: int) -> date:
        return date.fromordinal(position * 7 + 1)

    def position_of_day(self, day: date) -> int:
        return (day.toordinal() - 1) // 7  # the first day of the calendar was a Monday


@dataclass(frozen=True)
class Monthly(Calendar):
    """Months, `2026-01`."""

    grain: ClassVar[str] = "a month"
    example: ClassVar[str] = "2026-01"

    def value(self, position: int) -> str:
        day = self.first_day(position)
        return f"{day.year:04}-{day.month:02}"

    def read(self, value: str) -> date | None:
        found = _MONTH.fullmatch(value)
        return date(int(found[1]), int(found[2]), 1) if found else None

    def first_day(self, position: int) -> date:
        return date(position // 12, position % 12 + 1, 1)

    def position_of_day(self, day: date) -> int:
        return day.year * 12 + day.month - 1
