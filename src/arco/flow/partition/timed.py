"""What the dimensions of time share: a start, an end that is not in it, a zone and a lag.

A partition exists once it is over and the lag has passed. Positions count hours, days, weeks or months,
so that length, place and span are arithmetic.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from typing import ClassVar, Self
from zoneinfo import ZoneInfo

from arco.core.errors import Invalid
from arco.flow.duration import parse_duration
from arco.flow.partition.dimension import (
    NOTHING_KNOWN,
    Keys,
    Known,
    check_name,
    checked_now,
    holds,
    position_in,
)
from arco.flow.partition.zone import midnight, zone

When = str | date | datetime


@dataclass(frozen=True)
class Timed(ABC):
    """A dimension of time; `start` and `end` are kept as the keys that they mean.

    A moment without a zone is read on the clocks of `tz`.
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
        zone(self.tz)
        self._lag()
        first = self._border("start", self.start)
        object.__setattr__(self, "start", self.value(first))
        if self.end is not None:
            last = self._border("end", self.end)
            if last <= first:
                raise Invalid(
                    f"dimension {self.name!r} ends at {self.value(last)}, before anything has begun "
                    f"at {self.start}: the end is exclusive, write end='{self.value(first + 1)}' "
                    f"or later"
                )
            object.__setattr__(self, "end", self.value(last))

    @abstractmethod
    def value(self, position: int) -> str:
        """How the partition at a position is written."""

    def values_at(self, positions: Iterable[int]) -> Iterator[str]:
        """How the partitions at many positions are written."""
        return map(self.value, positions)

    @abstractmethod
    def position(self, value: str) -> int:
        """The position of a key, be it within start and end or not; Invalid if it is not spelled so."""

    @abstractmethod
    def begin(self, position: int) -> datetime:
        """The moment, in UTC, at which the partition at a position begins."""

    @abstractmethod
    def position_at(self, moment: datetime) -> int:
        """The position of the partition that holds a moment."""

    @cached_property
    def zone(self) -> ZoneInfo:
        """The zone on whose clocks the borders are."""
        return zone(self.tz)

    @cached_property
    def positions(self) -> range:
        """The positions from start to end; without an end, as far as keys can be written."""
        first = self.position(str(self.start))
        return range(first, self.highest if self.end is None else self.position(str(self.end)))

    @property
    @abstractmethod
    def lowest(self) -> int:
        """No position is below."""

    @property
    @abstractmethod
    def highest(self) -> int:
        """No position is above."""

    def axis(self, dynamic: Known = NOTHING_KNOWN) -> Self:  # noqa: ARG002
        return self

    def declared(self, dynamic: Known = NOTHING_KNOWN) -> range:  # noqa: ARG002
        return self.positions

    def existing(self, now: datetime, dynamic: Known = NOTHING_KNOWN) -> range:  # noqa: ARG002
        running = self.position_at(checked_now(now).astimezone(UTC) - self._lag())
        return range(
            self.positions.start, max(self.positions.start, min(running, self.positions.stop))
        )

    def keys(self, now: datetime, dynamic: Known = NOTHING_KNOWN) -> Sequence[str]:
        return Keys(self, self.existing(now, dynamic))

    def span(self, key: str) -> tuple[datetime, datetime]:
        """From when to when a partition goes, in UTC; the second is not in it."""
        position = self.position(key)
        return self.begin(position), self.begin(position + 1)

    def at(self, moment: datetime) -> str:
        """The key of the partition that holds a moment."""
        return self.value(self.position_at(checked_now(moment)))

    def __contains__(self, value: object) -> bool:
        return holds(self, self.positions, value)

    def not_a_key(self, value: object, why: str = "") -> Invalid:
        """The error for what is no key of this dimension."""
        return Invalid(
            f"{value!r} is not {self.grain} of dimension {self.name!r}{why}: "
            f"write it as '{self.example}'"
        )

    def _lag(self) -> timedelta:
        return timedelta(milliseconds=0 if self.lag is None else parse_duration(self.lag))

    def _border(self, label: str, given: When) -> int:
        """The position that begins at a moment; people write the border of a month in many ways."""
        if isinstance(given, str):
            position = position_in(self, given)
            if position is not None:
                return position
        moment = self._moment(given)
        position = self.position_at(moment)
        if self.begin(position) != moment:
            raise Invalid(
                f"{label} {given!s} of dimension {self.name!r} is within {self.grain}: write "
                f"{label}='{self.value(position)}' or {label}='{self.value(position + 1)}'"
            )
        return position

    def _moment(self, given: When) -> datetime:
        if isinstance(given, str):
            try:
                given = datetime.fromisoformat(given)
            except ValueError:
                raise self.not_a_key(given) from None
        if isinstance(given, datetime):
            local = given if given.tzinfo else given.replace(tzinfo=self.zone)
            return checked_now(local).astimezone(UTC)
        if isinstance(given, date):
            checked_now(datetime(given.year, given.month, given.day, tzinfo=UTC))
            return midnight(given, self.zone)
        raise self.not_a_key(given)
