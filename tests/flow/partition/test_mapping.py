"""Which partitions read which, both ways."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.core.errors import Invalid
from arco.flow.partition import (
    Daily,
    Dimension,
    Dynamic,
    Hourly,
    Mapping,
    MappingContext,
    Monthly,
    Partitions,
    Static,
    Weekly,
    all_partitions,
    custom,
    default_mapping,
    identity,
    latest,
    offset,
    roll_up,
    window,
)
from arco.flow.partition.time_dimension import TimeDimension
from tests.flow.partition.cases import NOW

PARIS = "Europe/Paris"
DAYS = Partitions([Daily("ds", "2026-01-01", tz=PARIS)])
HOURS = Partitions([Hourly("hour", "2026-01-01", tz=PARIS)])
KNOWN = {"customer": ("acme", "zoo")}


@dataclass(frozen=True)
class Case:
    """A mapping between an asset and its input."""

    mapping: Mapping
    of: Partitions
    reads: Partitions


@st.composite
def same_grain(draw: st.DrawFn) -> tuple[TimeDimension, TimeDimension]:
    zones = st.sampled_from(["UTC", PARIS, "America/New_York"])
    day = st.integers(20, 26).map(lambda number: f"2026-10-{number}")
    week = st.integers(41, 44).map(lambda number: f"2026-W{number}")
    month = st.integers(7, 10).map(lambda number: f"2026-{number:02}")
    tz = draw(zones)
    pairs: list[tuple[TimeDimension, TimeDimension]] = [
        (
            Hourly("t", f"{draw(day)}T20", "2026-10-27", tz=tz),
            Hourly("t", f"{draw(day)}T22", "2026-10-27T09", tz=tz),
        ),
        (
            Daily("t", draw(day), "2026-11-08", tz=draw(zones)),
            Daily("t", draw(day), "2026-11-03", tz=draw(zones), lag="2d"),
        ),
        (Weekly("t", draw(week), "2026-W50", tz=tz), Weekly("t", draw(week), "2026-W48")),
        (Monthly("t", draw(month), "2027-02", tz=tz), Monthly("t", draw(month), "2027-01")),
    ]
    return draw(st.sampled_from(pairs))


@st.composite
def finer(draw: st.DrawFn) -> tuple[TimeDimension, TimeDimension]:
    zones = st.sampled_from(["UTC", PARIS, "America/New_York"])
    day = st.integers(20, 26).map(lambda number: f"2026-10-{number}")
    coarse: list[TimeDimension] = [
        Daily("big", draw(day), "2026-11-03", tz=draw(zones)),
        Weekly("big", "2026-W41", "2026-W46", tz=draw(zones)),
        Monthly("big", "2026-09", "2026-12", tz=draw(zones)),
    ]
    fine: list[TimeDimension] = [
        Hourly("t", f"{draw(day)}T05", "2026-10-27", tz=draw(zones)),
        Daily("t", draw(day), "2026-11-12", tz=draw(zones)),
    ]
    of, reads = draw(st.sampled_from(coarse)), draw(st.sampled_from(fine))
    return (coarse[1], reads) if isinstance(of, Daily) and isinstance(reads, Daily) else (of, reads)


@st.composite
def others(draw: st.DrawFn) -> tuple[list[Dimension], list[Dimension]]:
    """Dimensions that are not of time, for the asset and for its input."""
    choices: list[tuple[list[Dimension], list[Dimension]]] = [
        ([], []),
        ([Static("region", ["eu"])], [Static("region", ["ap", "eu"])]),
        ([Dynamic("customer")], [Dynamic("customer")]),
        ([Static("a", ["x", "y"])], [Static("b", ["x", "y"])]),
        ([], [Static("region", ["eu", "us"])]),
        ([Static("region", ["eu", "us"])], []),
    ]
    return draw(st.sampled_from(choices))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    of_rest, reads_rest = draw(others())
    same = draw(st.booleans())
    of, reads = draw(same_grain() if same else finer())
    asset, source = Partitions([of, *of_rest]), Partitions([reads, *reads_rest])
    mappings = [window(draw(st.integers(1, 5))), offset(draw(st.integers(-3, 3)))]
    mappings += [all_partitions, latest, default_mapping(asset, source)]
    if not same:
        mappings.append(roll_up)
    elif set(asset.names) >= set(source.names):
        mappings.append(identity)
    return Case(draw(st.sampled_from(mappings)), asset, source)


@settings(max_examples=150, deadline=None)
@given(cases(), st.integers(0, 40))
def test_downstream_is_the_inverse_of_upstream(case: Case, days: int) -> None:
    now = datetime(2026, 10, 20 + days % 11, days % 24, tzinfo=UTC)
    asked = MappingContext(case.of, case.reads, now, KNOWN)
    everything = list(case.reads.keys(datetime(2027, 6, 1, tzinfo=UTC), KNOWN))
    affected = {key: set(case.mapping.downstream(key, asked)) for key in everything}
    existing = list(case.of.keys(now, KNOWN))
    for key in existing:
        reads = set(case.mapping.upstream(key, asked))
        assert reads == {other for other in everything if key in affected[other]}
    assert set().union(*affected.values()) <= set(existing)


@settings(deadline=None)
@given(finer())
def test_what_is_rolled_up_lies_within(pair: tuple[TimeDimension, TimeDimension]) -> None:
    of, reads = pair
    asset, source = Partitions([of]), Partitions([reads])
    for big in of.keys(NOW):
        start, end = of.span(big)
        inside = [
            f"t={small}"
            for small in reads.keys(datetime(2027, 1, 1, tzinfo=UTC))
            if _meets(of, reads, big, small, start, end)
        ]
        assert list(roll_up.upstream(f"big={big}", MappingContext(asset, source, NOW))) == inside


def _meets(
    of: TimeDimension, reads: TimeDimension, big: str, small: str, start: datetime, end: datetime
) -> bool:
    """If a small partition lies in a big one: by moments for hours, by dates for days."""
    if isinstance(reads, Hourly):
        first, last = reads.span(small)
        return start <= first and last <= end
    noon = datetime.fromisoformat(f"{small}T12:00").replace(tzinfo=of.zone)
    return of.at(noon) == big


@pytest.mark.parametrize(
    ("day", "hours"), [("2026-03-29", 23), ("2026-03-30", 24), ("2026-10-25", 25)]
)
def test_a_day_reads_as_many_hours_as_it_has(day: str, hours: int) -> None:
    read = roll_up.upstream(f"ds={day}", MappingContext(DAYS, HOURS, NOW))
    assert len(read) == hours
    assert read[0] == f"hour={day}T00"
    assert read[-1] == f"hour={day}T23"


def test_days_of_paris_are_made_of_hours_of_utc() -> None:
    utc = Partitions([Hourly("hour", "2025-12-01")])
    read = roll_up.upstream("ds=2026-01-15", MappingContext(DAYS, utc, NOW))
    assert (len(read), read[0], read[-1]) == (24, "hour=2026-01-14T23", "hour=2026-01-15T22")
    assert roll_up.downstream("hour=2026-01-14T23", MappingContext(DAYS, utc, NOW)) == (
        "ds=2026-01-15",
    )


def test_a_week_reads_its_days_over_the_turn_of_a_year() -> None:
    weeks = Partitions([Weekly("week", "2025-W01")])
    days = Partitions([Daily("ds", "2025-01-01")])
    read = roll_up.upstream("week=2026-W01", MappingContext(weeks, days, NOW))
    assert (len(read), read[0], read[-1]) == (7, "ds=2025-12-29", "ds=2026-01-04")
    assert roll_up.downstream("ds=2025-12-31", MappingContext(weeks, days, NOW)) == (
        "week=2026-W01",
    )


def test_a_window_of_months_reads_all_their_days() -> None:
    months = Partitions([Monthly("month", "2026-01")])
    read = window(2).upstream("month=2026-03", MappingContext(months, DAYS, NOW))
    assert (len(read), read[0], read[-1]) == (28 + 31, "ds=2026-02-01", "ds=2026-03-31")
    affected = window(2).downstream("ds=2026-02-10", MappingContext(months, DAYS, NOW))
    assert affected == ("month=2026-02", "month=2026-03")


def test_a_window_stops_at_the_start_of_the_input() -> None:
    assert window(7).upstream("ds=2026-01-02", MappingContext(DAYS, DAYS, NOW)) == (
        "ds=2026-01-01",
        "ds=2026-01-02",
    )
    assert len(window(10**9).upstream("ds=2026-01-31", MappingContext(DAYS, DAYS, NOW))) == 31
    months = Partitions([Monthly("month", "2026-01")])
    assert len(window(10**9).upstream("month=2026-01", MappingContext(months, DAYS, NOW))) == 31


def test_an_asset_may_read_its_own_partition_of_yesterday() -> None:
    assert offset(-1).upstream("ds=2026-01-02", MappingContext(DAYS, DAYS, NOW)) == (
        "ds=2026-01-01",
    )
    assert offset(-1).upstream("ds=2026-01-01", MappingContext(DAYS, DAYS, NOW)) == ()
    assert offset(-1).downstream("ds=2026-01-01", MappingContext(DAYS, DAYS, NOW)) == (
        "ds=2026-01-02",
    )


def test_an_input_that_is_not_there_yet_is_still_named() -> None:
    late = Partitions([Daily("ds", "2026-01-01", tz=PARIS, lag="2d")])
    now = datetime(2026, 1, 3, tzinfo=UTC)
    assert "ds=2026-01-02" not in late.keys(now)
    assert identity.upstream("ds=2026-01-02", MappingContext(DAYS, late, now)) == ("ds=2026-01-02",)


def test_latest_is_the_newest_that_exists() -> None:
    by_region = Partitions([Daily("ds", "2026-01-01"), Static("region", ["eu", "us"])])
    regions = Partitions([Static("region", ["us"])])
    now = datetime(2026, 1, 5, 12, tzinfo=UTC)
    assert latest.upstream("region=us", MappingContext(regions, by_region, now)) == (
        "ds=2026-01-04/region=us",
    )
    assert latest.downstream(
        "ds=2026-01-04/region=us", MappingContext(regions, by_region, now)
    ) == ("region=us",)
    assert (
        latest.downstream("ds=2026-01-03/region=us", MappingContext(regions, by_region, now)) == ()
    )
    assert (
        latest.downstream("ds=2026-01-04/region=eu", MappingContext(regions, by_region, now)) == ()
    )
    assert (
        latest.upstream(
            "region=us", MappingContext(regions, by_region, datetime(2026, 1, 1, tzinfo=UTC))
        )
        == ()
    )


def test_all_is_all_that_exists() -> None:
    now = datetime(2026, 1, 4, tzinfo=UTC)
    assert all_partitions.upstream("", MappingContext(Partitions(), DAYS, now)) == (
        "ds=2026-01-01",
        "ds=2026-01-02",
        "ds=2026-01-03",
    )
    assert all_partitions.upstream("ds=2026-01-02", MappingContext(DAYS, Partitions(), now)) == (
        "",
    )
    assert len(all_partitions.downstream("", MappingContext(DAYS, Partitions(), now))) == 3


def test_a_function_says_what_is_read() -> None:
    def first_of_month(key: str) -> str:
        return key[:-2] + "01"

    february = datetime(2026, 3, 1, tzinfo=UTC)
    mapping = custom(first_of_month)
    assert mapping.upstream("ds=2026-02-10", MappingContext(DAYS, DAYS, february)) == (
        "ds=2026-02-01",
    )
    assert len(mapping.downstream("ds=2026-02-01", MappingContext(DAYS, DAYS, february))) == 28
    assert mapping.downstream("ds=2026-02-02", MappingContext(DAYS, DAYS, february)) == ()


def test_an_inverse_spares_asking_for_each_key() -> None:
    asked: list[str] = []

    def same(key: str) -> list[str]:
        asked.append(key)
        return [key]

    mapping = custom(same, inverse=lambda key: ["ds=2026-01-05", "ds=2029-01-01"])
    assert mapping.downstream("ds=2026-01-01", MappingContext(DAYS, DAYS, NOW)) == (
        "ds=2026-01-05",
    )
    assert asked == []


@pytest.mark.parametrize("message", ["2026-01-01", ["ds=2025-12-31"], [5], 5, None])
def test_a_function_that_says_no_keys_is_refused_with_an_example(message: Any) -> None:
    with pytest.raises(Invalid, match=r"a custom mapping returned .*'ds=2026-01-01'"):
        custom(lambda key: message).upstream("ds=2026-01-02", MappingContext(DAYS, DAYS, NOW))


def _fails(key: Any) -> Any:
    return key["ds"]


def _fails_late(key: Any) -> Any:
    yield key
    yield key["ds"]


@pytest.mark.parametrize("function", [_fails, _fails_late])
def test_what_a_function_raises_is_reported_with_what_it_was_given(function: Any) -> None:
    reading = MappingContext(DAYS, DAYS, NOW)
    reported = "raised TypeError for 'ds=2026-01-02', .* string indices"
    with pytest.raises(Invalid, match=reported) as refused:
        custom(function).upstream("ds=2026-01-02", reading)
    assert isinstance(refused.value.__cause__, TypeError)
    with pytest.raises(Invalid, match=reported):
        custom(str, inverse=function).downstream("ds=2026-01-02", reading)


@pytest.mark.parametrize("mapping", [identity, window(2), all_partitions, latest, custom(str)])
@pytest.mark.parametrize(
    "key", ["", "2026-01-02", "ds=2026-1-2", "ds=2025-12-31", "ds=2026-01-02/x=1"]
)
def test_a_key_of_something_else_is_refused_both_ways(mapping: Mapping, key: str) -> None:
    for ask in (mapping.upstream, mapping.downstream):
        with pytest.raises(Invalid, match="write"):
            ask(key, MappingContext(DAYS, DAYS, NOW))


def test_bad_arguments_are_refused_with_an_example() -> None:
    bad: list[Any] = [0, -1, 1.5, "7", None, True]
    for count in bad:
        with pytest.raises(Invalid, match="as window=7"):
            window(count)
    for steps in bad[2:]:
        with pytest.raises(Invalid, match="write offset=-1"):
            offset(steps)
    for function in bad:
        with pytest.raises(Invalid, match="write partitions=lambda key"):
            custom(function)
    with pytest.raises(Invalid, match="write partitions=lambda key"):
        custom(str, inverse="x")  # type: ignore[arg-type]


DS = Daily("ds", "2026-01-01")
REGION = Static("region", ["eu", "us"])


def read(of: list[Dimension], reads: list[Dimension], key: str) -> tuple[str, ...]:
    asset, source = Partitions(of), Partitions(reads)
    return default_mapping(asset, source).upstream(
        key, MappingContext(asset, source, NOW, {"c": ("x", "y")})
    )


def test_a_shared_dimension_is_the_same() -> None:
    assert read([DS], [Daily("ds", "2025-01-01", tz="Europe/Paris")], "ds=2026-01-15") == (
        "ds=2026-01-15",
    )
    assert read([Dynamic("c")], [Dynamic("c")], "c=y") == ("c=y",)


def test_a_finer_dimension_rolls_up_even_under_another_name() -> None:
    for name in ("ds", "hour"):
        hours = read([DS], [Hourly(name, "2026-01-01")], "ds=2026-01-15")
        assert (len(hours), hours[0]) == (24, f"{name}=2026-01-15T00")


def test_a_dimension_that_the_asset_lacks_is_read_whole() -> None:
    assert read([DS], [DS, REGION], "ds=2026-01-15") == (
        "ds=2026-01-15/region=eu",
        "ds=2026-01-15/region=us",
    )
    assert len(read([], [DS], "")) == 319


def test_a_dimension_that_the_input_lacks_changes_nothing() -> None:
    assert read([DS, REGION], [DS], "ds=2026-01-15/region=eu") == ("ds=2026-01-15",)
    assert read([DS], [], "ds=2026-01-15") == ("",)


@pytest.mark.parametrize(
    ("of", "reads", "why"),
    [
        ([Hourly("h", "2026-01-01")], [DS], "a day of the input does not fit into an hour"),
        ([Hourly("ds", "2026-01-01")], [DS], "a day of the input does not fit into an hour"),
        ([Monthly("m", "2026-01")], [Weekly("w", "2026-W02")], "does not fit into a month"),
        (
            [DS],
            [Daily("day", "2026-01-01")],
            "different names.*write mapping=identity if .* or partitions='all'",
        ),
        ([DS], [Static("ds", ["x"])], "Daily in the asset and Static in the input"),
        ([REGION], [Dynamic("region")], "Static in the asset and Dynamic in the input"),
        ([REGION], [Static("region", ["eu"])], "no value 'us'.*, or write partitions='all', "),
        (
            [Hourly("h", "2026-01-01")],
            [Hourly("h", "2026-01-01", tz="Europe/Paris")],
            "different names: write the same tz",
        ),
        (
            [Daily("ds", "2026-01-01", tz="Asia/Kolkata")],
            [Hourly("h", "2026-01-01")],
            "midnight in Asia/Kolkata is within an hour of UTC: write tz='Asia/Kolkata'",
        ),
    ],
)
def test_what_cannot_work_says_why(of: list[Dimension], reads: list[Dimension], why: str) -> None:
    with pytest.raises(Invalid, match=why):
        default_mapping(Partitions(of), Partitions(reads))


@pytest.mark.parametrize(
    ("mapping", "of", "reads", "why"),
    [
        (identity, [DS], [DS, REGION], "identity needs each dimension.*lacks 'region'"),
        (
            identity,
            [DS],
            [Hourly("ds", "2026-01-01")],
            "needs the same grain.*write mapping=roll_up",
        ),
        (roll_up, [DS], [DS], "gathers what is finer.*write mapping=identity"),
        (roll_up, [REGION], [REGION], r"roll_up needs one dimension of time"),
        (window(7), [REGION], [DS], r"window=7 needs one dimension of time"),
        (window(7), [DS], [REGION], r"they share 0 \(asset: 'ds'; input: 'region'\)"),
        (offset(-1), [], [], r"offset=-1 needs one.*asset: nothing"),
        (window(2), [DS, Daily("b", "2026-01-01")], [DS, Daily("b", "2026-01-01")], "share 2"),
        (latest, [DS], [REGION], "'latest' needs an input with a dimension of time"),
        (latest, [DS], [], "has none: write partitions='all'"),
    ],
)
def test_a_mapping_says_why_it_cannot_work(
    mapping: Mapping, of: list[Dimension], reads: list[Dimension], why: str
) -> None:
    with pytest.raises(Invalid, match=why):
        mapping.check(Partitions(of), Partitions(reads))


def test_identity_joins_days_of_different_names() -> None:
    asset, source = Partitions([DS]), Partitions([Daily("day", "2026-01-01")])
    assert identity.upstream("ds=2026-01-15", MappingContext(asset, source, NOW)) == (
        "day=2026-01-15",
    )
