"""Partitions as pictures."""

from datetime import UTC, datetime

from arco.cli.flow.partition_grid import (
    PartitionCounts,
    PartitionGrid,
    PartitionMark,
    draw,
    lay_out,
    legend,
    marks_of,
)
from arco.flow.partition import (
    Daily,
    Dimension,
    Dynamic,
    Hourly,
    Monthly,
    Partitions,
    Static,
    Weekly,
)
from arco.flow.plan.context import TableIndex
from arco.flow.plan.table_state import TableState

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def marks(
    *dimensions: Dimension, now: datetime = NOW, **given_marks: PartitionMark
) -> tuple[Partitions, dict[str, PartitionMark]]:
    cut = Partitions(dimensions)
    return cut, dict.fromkeys(cut.keys(now), PartitionMark.COMPLETE) | given_marks


def lines(cut: Partitions, marks_by_key: dict[str, PartitionMark]) -> list[str]:
    return [line.plain for line in draw(lay_out(cut, marks_by_key))]


def test_days_are_a_calendar_with_a_row_for_each_month() -> None:
    cut, marks_by_key = marks(Daily("ds", start="2026-01-30", end="2026-02-04"))
    marks_by_key["ds=2026-01-31"] = PartitionMark.FAILED_NEVER_MADE
    marks_by_key["ds=2026-02-02"] = PartitionMark.MISSING

    assert lines(cut, marks_by_key) == [
        "month    01      05        10        15        20        25        30",
        "2026-01                                                            C F",
        "2026-02  C . C",
    ]


def test_hours_are_a_grid_with_a_row_for_each_day() -> None:
    cut, marks_by_key = marks(Hourly("h", start="2026-01-01T22", end="2026-01-02T02"))

    assert lines(cut, marks_by_key) == [
        "day         00    03    06    09    12    15    18    21",
        "2026-01-01                                              C C",
        "2026-01-02  C C",
    ]


def test_an_hour_that_the_clocks_show_twice_has_a_place_of_its_own() -> None:
    summer = datetime(2026, 12, 1, tzinfo=UTC)
    cut, marks_by_key = marks(
        Hourly("h", start="2026-10-25T00", end="2026-10-26T00", tz="Europe/Paris"), now=summer
    )

    drawing = lay_out(cut, marks_by_key)
    assert isinstance(drawing, PartitionGrid)
    assert len(drawing.rows["2026-10-25"]) == 25


def test_weeks_and_months_have_a_row_for_each_year() -> None:
    weeks = lines(*marks(Weekly("w", start="2025-W52", end="2026-W03")))
    months = lines(*marks(Monthly("m", start="2025-12", end="2026-02")))

    assert [row.split()[0] for row in weeks] == ["year", "2025", "2026"]
    assert weeks[2].endswith("C C")
    assert months[1:] == [f"2025{' ' * 46}C", "2026  C"]


def test_a_list_has_a_row_for_each_value() -> None:
    assert lines(*marks(Static("region", ["us", "eu"]))) == ["region", "eu      C", "us      C"]


def test_of_a_product_time_goes_down_and_the_rest_stands_beside_it() -> None:
    cut, marks_by_key = marks(
        Daily("ds", start="2026-01-01", end="2026-01-03"), Static("region", ["eu", "us"])
    )
    marks_by_key["ds=2026-01-02/region=us"] = PartitionMark.STALE

    assert lines(cut, marks_by_key) == [
        "ds          eu  us",
        "2026-01-01  C   C",
        "2026-01-02  C   S",
    ]


def test_of_two_lists_the_first_goes_down() -> None:
    cut, marks_by_key = marks(Static("a", ["x", "y"]), Static("b", ["1", "2"]))

    assert lines(cut, marks_by_key) == ["a  1  2", "x  C  C", "y  C  C"]


def test_a_hundred_thousand_hours_are_counted_by_month() -> None:
    late = datetime(2030, 1, 1, tzinfo=UTC)
    cut, marks_by_key = marks(Hourly("h", start="2018-01-01T00"), now=late)
    assert len(marks_by_key) > 100_000

    drawing = lay_out(cut, marks_by_key)
    assert isinstance(drawing, PartitionCounts)
    assert len(drawing.rows) == 12 * 12
    assert drawing.rows["2018-01"] == {PartitionMark.COMPLETE: 31 * 24}
    assert len(lines(cut, marks_by_key)) == 145


def test_many_values_of_a_list_are_counted() -> None:
    cut = Partitions([Dynamic("customer")])
    marks_by_key = {f"customer={n:05}": PartitionMark.COMPLETE for n in range(10_000)}
    marks_by_key["customer=00007"] = PartitionMark.FAILED_NEVER_MADE

    assert lines(cut, marks_by_key) == [
        "customer  complete  failed, never made",
        "all          9,999                   1",
    ]


def test_the_legend_counts_what_there_is() -> None:
    legend_text = legend([PartitionMark.COMPLETE, PartitionMark.COMPLETE, PartitionMark.MISSING])

    assert legend_text.plain == "C complete 2   . missing 1"


def test_a_mark_follows_from_status_and_data() -> None:
    state = TableState(
        keys=("a", "b", "c", "d", "e", "f", "g"),
        statuses=("COMPLETE", "FAILED", "RUNNING", "COMPLETE", "PENDING", "FAILED", "FAILED"),
        materials=("1", "2", None, "4", None, None, "7"),
    )

    assert marks_of(TableIndex("t", state, is_made=True), ["a", "z"], {"d"}, {"g"}) == {
        "a": PartitionMark.COMPLETE,
        "z": PartitionMark.MISSING,
        "b": PartitionMark.FAILED_OLDER_DATA_SERVED,
        "f": PartitionMark.FAILED_NEVER_MADE,
        "g": PartitionMark.COMPLETE,  # its data are those that the present code would make
        "c": PartitionMark.RUNNING,
        "d": PartitionMark.STALE,
        "e": PartitionMark.MISSING,
    }


def test_a_source_without_known_partitions_exists_for_planning() -> None:
    unpartitioned = TableState(table_id="t", version="7")
    partitioned = TableState(
        table_id="t", version="7", keys=("ds=1",), statuses=("",), materials=("m",)
    )

    def marked(state: TableState, *existing: str, is_made: bool = False) -> list[PartitionMark]:
        return [*marks_of(TableIndex("t", state, is_made), existing, ()).values()]

    assert marked(unpartitioned, "") == [PartitionMark.COMPLETE]
    assert marked(TableState(), "") == [PartitionMark.MISSING]
    assert marked(partitioned, "ds=1", "ds=2") == [PartitionMark.COMPLETE, PartitionMark.MISSING]
    assert marked(unpartitioned, "", is_made=True) == [PartitionMark.MISSING]
