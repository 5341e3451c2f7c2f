"""Keys of tasks say a maker and a partition, and nothing else could be meant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.flow.partition import Daily, Hourly, Monthly, Partitions, Static, Weekly
from arco.flow.plan.keys import TaskName, describe_keys, key_ranges, read_key, short_name, task_key
from tests.flow.partition.cases import NOW


@pytest.mark.parametrize(
    ("maker", "partition", "key"),
    [
        ("default.silver.orders", "ds=2026-01-10", "silver.orders@ds=2026-01-10"),
        ("default.silver.orders", "", "silver.orders"),
        ("other.silver.orders", "", "other.silver.orders"),
        ("default.default.orders", "", "default.orders"),
        ("report", "ds=2026-01-10", "report@ds=2026-01-10"),
        ("default.a@b.100%", "x=a@b", "a%40b.100%25@x=a@b"),
        ('default."a.b".c', "", '"a.b".c'),
    ],
)
def test_a_key_reads_back_as_what_it_was_made_of(maker: str, partition: str, key: str) -> None:
    assert task_key(maker, partition) == key
    assert read_key(key) == TaskName(maker, partition)


_PART = st.text("ab%@d.4\"0'", min_size=1, max_size=6).filter(lambda part: part.strip("."))


@given(st.sampled_from(["default", "other"]), _PART, _PART, st.sampled_from(["", "x=a@b", "y=%40"]))
def test_any_names_read_back(catalog: str, schema: str, table: str, partition: str) -> None:
    quoted = [
        part if "." not in part and '"' not in part else '"' + part.replace('"', '""') + '"'
        for part in (schema, table)
    ]
    maker = ".".join([catalog, *quoted])
    assert read_key(task_key(maker, partition)) == TaskName(maker, partition)


def test_a_name_of_two_levels_that_begins_with_default_keeps_it() -> None:
    assert short_name("default.default.x") == "default.x"
    assert short_name("report") == "report"


CUTS = [
    Partitions(Daily("ds", "2025-12-20", "2026-01-12")),
    Partitions(Hourly("hour", "2026-01-01T20", "2026-01-03T02")),
    Partitions(Weekly("week", "2025-W45", "2026-W08")),
    Partitions(Monthly("month", "2025-08", "2026-06")),
    Partitions([Daily("ds", "2025-12-28", "2026-01-07"), Static("a", ["x", "y/z", "u,v"])]),
    Partitions(Static("region", ["eu", "us", "2026"])),
]


@given(st.sampled_from(CUTS), st.lists(st.booleans(), min_size=1, max_size=11))
def test_runs_choose_exactly_their_keys(cut: Partitions, picks: list[bool]) -> None:
    keys = [key for at, key in enumerate(cut.keys(NOW)) if picks[at % len(picks)]]
    ranges = key_ranges(keys)
    assert sorted(key for run in ranges for key in cut.parse(run, NOW)) == sorted(keys)


def test_all_keys_are_few_runs() -> None:
    assert [len(key_ranges(cut.keys(NOW))) for cut in CUTS] == [1, 1, 1, 1, 3, 3]


def test_a_comma_in_a_value_does_not_end_a_run() -> None:
    assert key_ranges(["a=u,v/ds=2026-01-01", "a=u,v/ds=2026-01-02"]) == [
        "a=u%2Cv/ds=2026-01-01..2026-01-02"
    ]
    assert key_ranges(["a=u,v/ds=2026-01-01"]) == ["a=u,v/ds=2026-01-01"]


def test_an_hour_that_is_there_twice_is_part_of_its_night() -> None:
    hours = Partitions(Hourly("hour", "2026-10-24T20", "2026-10-25T08", tz="Europe/Paris"))
    keys = list(hours.keys(NOW))
    assert "hour=2026-10-25T02+0100" in keys
    assert key_ranges(keys) == ["hour=2026-10-24T20..2026-10-25T07"]
    assert list(hours.parse(key_ranges(keys)[0], NOW)) == keys
    twice = keys.index("hour=2026-10-25T02+0100")
    assert key_ranges(keys[twice:]) == ["hour=2026-10-25T02+0100..2026-10-25T07"]
    assert key_ranges([keys[twice - 1], keys[twice]]) == ["hour=2026-10-25T02..2026-10-25T02+0100"]


def test_runs_read_as_people_write_ranges() -> None:
    assert key_ranges(["ds=2026-01-01", "ds=2026-01-02", "ds=2026-01-04"]) == [
        "ds=2026-01-01..2026-01-02",
        "ds=2026-01-04",
    ]
    assert key_ranges(["ds=2026-01-02", "ds=2026-01-01"]) == ["ds=2026-01-02", "ds=2026-01-01"]
    assert key_ranges([""]) == [""]
    assert key_ranges([]) == []
    assert key_ranges(["ds=2026-12-31/r=eu", "ds=2026-12-31/r=us", "ds=2027-01-01/r=us"]) == [
        "ds=2026-12-31/r=eu",
        "ds=2026-12-31..2027-01-01/r=us",
    ]


def test_a_few_are_listed_and_the_rest_counted() -> None:
    keys = [f"ds=2026-01-{day:02}" for day in range(1, 20, 2)]
    assert describe_keys(keys) == "ds=2026-01-01, ds=2026-01-03, ds=2026-01-05 and 7 more"
    assert describe_keys([""]) == "all of it"
