"""The base of the time dimensions: a start, an exclusive end, a time zone and a lag.

A partition exists once its time has ended and the lag has passed. Positions count hours, days, weeks or
months, so that length, position and span are arithmetic.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property, lru_cache
from typing import ClassVar, Self
from zoneinfo import ZoneInfo

from arco.core.duration import parse_duration
from arco.core.errors import Invalid
from arco.flow.partition.dimension import (
    NO_DYNAMIC_VALUES,
    DynamicValues,
    Keys,
    check_name,
    has_value,
    position_in,
    require_moment,
)

When = str | date | datetime


@dataclass(frozen=True)
class TimeDimension(ABC):
    """A time dimension; `start` and `end` are stored as keys.

    A datetime without a time zone is interpreted in `tz`.
    """

    grain: ClassVar[str]
    example: ClassVar[str]

    name: str
    start: When
    end: When | None = None
    tz: str = "UTC"
    lag: str | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        time_zone(self.tz)
        self._lag()
        first = self._border("start", self.start)
        object.__setattr__(self, "start", self.value(first))
        if self.end is not None:
            last = self._border("end", self.end)
            if last <= first:
                raise Invalid(
                    f"dimension {self.name!r} ends at {self.value(last)} and begins at {self.start}, "
                    f"so it has no partition: the end is exclusive, write "
                    f"end='{self.value(first + 1)}' or later"
                )
            object.__setattr__(self, "end", self.value(last))

    @abstractmethod
    def value(self, position: int) -> str:
        """The key of the partition at a position."""

    def values_at(self, positions: Iterable[int]) -> Iterator[str]:
        """The keys of the partitions at many positions."""
        return map(self.value, positions)

    @abstractmethod
    def position(self, value: str) -> int:
        """The position of a key, also outside of start and end; Invalid if it is not a key."""

    @abstractmethod
    def begin(self, position: int) -> datetime:
        """The UTC time at which the partition at a position begins."""

    @abstractmethod
    def position_at(self, moment: datetime) -> int:
        """The position of the partition that contains a time."""

    @cached_property
    def zone(self) -> ZoneInfo:
        """The time zone in which partitions begin and end."""
        return time_zone(self.tz)

    @cached_property
    def positions(self) -> range:
        """The positions from start to end; without an end, up to the last year that has keys."""
        first = self.position(str(self.start))
        return range(first, self.highest if self.end is None else self.position(str(self.end)))

    @property
    @abstractmethod
    def lowest(self) -> int:
        """The lowest possible position."""

    @property
    @abstractmethod
    def highest(self) -> int:
        """The highest possible position."""

    def axis(self, dynamic: DynamicValues = NO_DYNAMIC_VALUES) -> Self:  # noqa: ARG002
        return self

    def declared(self, dynamic: DynamicValues = NO_DYNAMIC_VALUES) -> range:  # noqa: ARG002
        return self.positions

    def existing(self, now: datetime, dynamic: DynamicValues = NO_DYNAMIC_VALUES) -> range:  # noqa: ARG002
        running = self.position_at(require_moment(now).astimezone(UTC) - self._lag())
        return range(
            self.positions.start, max(self.positions.start, min(running, self.positions.stop))
        )

    def keys(self, now: datetime, dynamic: DynamicValues = NO_DYNAMIC_VALUES) -> Sequence[str]:
        return Keys(self, self.existing(now, dynamic))

    def span(self, key: str) -> tuple[datetime, datetime]:
        """The begin and the exclusive end of a partition, in UTC."""
        position = self.position(key)
        return self.begin(position), self.begin(position + 1)

    def at(self, moment: datetime) -> str:
        """The key of the partition that contains a time."""
        return self.value(self.position_at(require_moment(moment)))

    def __contains__(self, value: object) -> bool:
        return has_value(self, self.positions, value)

    def not_a_key(self, value: object, why: str = "") -> Invalid:
        """The error for a text that is no key of this dimension."""
        return Invalid(
            f"{value!r} is not {self.grain} of dimension {self.name!r}{why}: "
            f"write it as '{self.example}'"
        )

    def _lag(self) -> timedelta:
        return timedelta(milliseconds=0 if self.lag is None else parse_duration(self.lag))

    def _border(self, label: str, border: When) -> int:
        """The position that begins at a start or end, which may be a key, a date or a datetime."""
        if isinstance(border, str):
            position = position_in(self, border)
            if position is not None:
                return position
        moment = self._moment(border)
        position = self.position_at(moment)
        if self.begin(position) != moment:
            raise Invalid(
                f"{label} {border!s} of dimension {self.name!r} is within {self.grain}: write "
                f"{label}='{self.value(position)}' or {label}='{self.value(position + 1)}'"
            )
        return position

    def _moment(self, border: When) -> datetime:
        if isinstance(border, str):
            try:
                border = datetime.fromisoformat(border)
            except ValueError:
                raise self.not_a_key(border) from None
        if isinstance(border, datetime):
            local = border if border.tzinfo else border.replace(tzinfo=self.zone)
            return require_moment(local).astimezone(UTC)
        if isinstance(border, date):
            require_moment(datetime(border.year, border.month, border.day, tzinfo=UTC))
            return midnight(border, self.zone)
        raise self.not_a_key(border)


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EARLIEST = date(1000, 1, 1)
LATEST = date(9998, 12, 31)
"""Keys have years of four digits, with a margin on both sides for the midnight of other zones."""

_YEARS_KNOWN = 2040
"""The zone database lists changes up to 2037; from then on one rule repeats."""


def time_zone(name: str) -> ZoneInfo:
    """The time zone with this IANA name."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError, TypeError) as error:
        raise Invalid(
            f"{name!r} is not a time zone: write a name such as 'Europe/Paris' or 'UTC'"
        ) from error


def midnight(day: date, tz: ZoneInfo) -> datetime:
    """The UTC time at which a day begins in a zone.

    If the clocks skip midnight, the day begins at the skip; if midnight occurs twice, at the first.
    """
    return datetime(day.year, day.month, day.day, tzinfo=tz).astimezone(UTC)


def into_the_hour_s(moment: datetime, tz: ZoneInfo) -> int:
    """The seconds from the full UTC hour to the full hour of this zone."""
    offset = moment.astimezone(tz).utcoffset()
    return -int(offset.total_seconds()) % 3600 if offset is not None else 0


@lru_cache(1024)
def hour_shift_s(tz: ZoneInfo, since: int) -> int:
    """The same for all time since a year; Invalid if the zone shifts by parts of an hour."""
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
