from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pytest

from arco.fold.fold import retain
from arco.fold.table import StateTable
from arco.fold.tier1 import CATALOGS
from arco.fold.tier2 import OCCURRED, SCHEDULES, TIER2
from tests.fold.tables import to_arrow

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MOMENT = timedelta(microseconds=1)
ALL = [table for domain in TIER2.values() for table in domain.values()]


def rows_at(*times: datetime | None) -> pa.Table:
    rows = [{"schedule_id": str(at), OCCURRED: time} for at, time in enumerate(times)]
    return to_arrow(SCHEDULES, rows)


def kept(rows: pa.Table, since: datetime | None) -> list[str]:
    found: list[str] = retain(SCHEDULES, rows, since).column("schedule_id").to_pylist()
    return found


def test_rows_leave_when_nothing_was_told_of_them_since() -> None:
    rows = rows_at(NOON - MOMENT, NOON, NOON + MOMENT)
    assert kept(rows, NOON) == ["1", "2"]
    assert kept(rows, NOON + MOMENT) == ["2"]
    assert kept(rows, NOON + 2 * MOMENT) == []
    assert retain(SCHEDULES, rows, NOON + 2 * MOMENT).schema == SCHEDULES.schema


def test_without_a_bound_all_rows_stay() -> None:
    rows = rows_at(NOON, None)
    assert retain(SCHEDULES, rows, None) is rows


def test_a_row_that_has_no_moment_stays() -> None:
    assert kept(rows_at(None, NOON - MOMENT, NOON), NOON) == ["0", "2"]


def test_a_bound_in_another_time_zone_is_the_same_moment() -> None:
    bound = NOON.astimezone(timezone(timedelta(hours=9)))
    assert kept(rows_at(NOON - MOMENT, NOON), bound) == ["1"]


def test_rows_in_pieces_and_no_rows_are_fine() -> None:
    pieces = pa.concat_tables([rows_at(NOON - MOMENT), rows_at(), rows_at(NOON, None)])
    assert kept(pieces, NOON) == ["0", "1"]
    assert kept(rows_at(), NOON) == []


def test_tables_that_have_no_moments_keep_their_rows() -> None:
    rows = to_arrow(CATALOGS, [{"catalog_id": "c"}])
    assert retain(CATALOGS, rows, NOON) is rows


@pytest.mark.parametrize("table", ALL, ids=lambda table: table.name)
def test_every_table_of_tier_2_lets_rows_go(table: StateTable) -> None:
    rows = to_arrow(table, [{OCCURRED: NOON - MOMENT}, {OCCURRED: NOON}])
    assert retain(table, rows, NOON).column(OCCURRED).to_pylist() == [NOON]
