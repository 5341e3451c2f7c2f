"""Dimensions and moments that several tests share."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from arco.flow.partition import Daily, Hourly, Monthly, Weekly
from arco.flow.partition.time_dimension import TimeDimension

NOW = datetime(2026, 11, 16, 12, 30, tzinfo=UTC)
EARLY = datetime(2016, 1, 1, tzinfo=UTC)
FAR = datetime(9990, 1, 1, tzinfo=UTC)
"""By then there are more hours than anybody would list."""

ZONES = ["UTC", "Europe/Paris", "America/New_York", "Asia/Kolkata", "Australia/Adelaide"]


def timed(zones: list[str] = ZONES) -> st.SearchStrategy[TimeDimension]:
    """Any dimension of time."""
    return st.one_of(
        st.builds(Hourly, st.just("t"), st.just("2015-06-01T00"), tz=st.sampled_from(zones)),
        st.builds(Daily, st.just("t"), st.just("2015-06-01"), tz=st.sampled_from(zones)),
        st.builds(Weekly, st.just("t"), st.just("2015-W23"), tz=st.sampled_from(zones)),
        st.builds(Monthly, st.just("t"), st.just("2015-06"), tz=st.sampled_from(zones)),
    )


def moments() -> st.SearchStrategy[datetime]:
    """Any moment, and many close to where clocks and calendars change."""
    anything = st.integers(0, 44 * 366 * 86_400).map(lambda s: EARLY + timedelta(seconds=s))
    borders = [
        datetime(2026, 3, 29, 1, tzinfo=UTC),  # Paris, forward
        datetime(2026, 10, 25, 1, tzinfo=UTC),  # Paris, back
        datetime(2026, 3, 8, 7, tzinfo=UTC),  # New York, forward
        datetime(2026, 11, 1, 6, tzinfo=UTC),  # New York, back
        datetime(2026, 4, 4, 16, 30, tzinfo=UTC),  # Adelaide, back
        datetime(2026, 12, 31, 23, tzinfo=UTC),
        datetime(2024, 2, 29, tzinfo=UTC),
    ]
    near = st.builds(
        lambda border, minutes: border + timedelta(minutes=minutes),
        st.sampled_from(borders),
        st.integers(-200, 200),
    )
    return st.one_of(anything, near)


@dataclass(frozen=True)
class Watched(Hourly):
    """Hours that count how many of them were looked at."""

    def value(self, position: int) -> str:
        LOOKED_AT.append(position)
        return super().value(position)

    def values_at(self, positions: Iterable[int]) -> Iterator[str]:
        return map(self.value, positions)


LOOKED_AT: list[int] = []


def looked_at() -> Iterator[list[int]]:
    """The positions that were made into text since now."""
    LOOKED_AT.clear()
    yield LOOKED_AT
    LOOKED_AT.clear()
