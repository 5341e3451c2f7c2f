"""What is meant when nothing is said, and what cannot be meant."""

import pytest

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
    default_mapping,
    identity,
    latest,
    offset,
    roll_up,
    window,
)
from tests.flow.partition.cases import NOW

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
