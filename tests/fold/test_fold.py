import zlib
from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.core.errors import Invalid
from arco.fold.fold import conform, fold
from arco.fold.table import MergeStrategy, StateTable
from arco.fold.tier1 import CATALOGS, COLUMNS, TABLES, TIER1
from tests.fold.tables import BARE, MIXED, Row, reference, rows_of, to_arrow, to_python

ALL = [*TIER1.values(), MIXED, BARE]
FEW = settings(max_examples=20)


@pytest.fixture(scope="module", params=["few", "many"], autouse=True)
def amount(request: pytest.FixtureRequest) -> Iterator[str]:
    """Rows are folded in another way where there are many; here a few count as many too."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "many":
            patch.setattr("arco.fold.fold.SMALL_ROWS", 0)
        yield request.param


def folded(table: StateTable, rows: list[Row]) -> list[Row]:
    return to_python(fold(table, to_arrow(table, rows)))


@pytest.mark.parametrize("table", ALL, ids=lambda table: table.name)
@FEW
@given(data=st.data())
def test_the_fold_is_the_one_that_plain_python_makes(
    table: StateTable, data: st.DataObject
) -> None:
    rows = data.draw(rows_of(table))
    assert folded(table, rows) == reference(table, rows)


@pytest.mark.parametrize("table", ALL, ids=lambda table: table.name)
@FEW
@given(data=st.data())
def test_order_and_duplication_change_nothing(table: StateTable, data: st.DataObject) -> None:
    rows = data.draw(rows_of(table))
    again = data.draw(st.lists(st.sampled_from(rows), max_size=4)) if rows else []
    shuffled = data.draw(st.permutations(rows + again))
    assert folded(table, shuffled) == folded(table, rows)


@pytest.mark.parametrize("table", ALL, ids=lambda table: table.name)
@FEW
@given(data=st.data())
def test_batches_change_nothing(table: StateTable, data: st.DataObject) -> None:
    rows = data.draw(rows_of(table))
    cut = data.draw(st.integers(0, len(rows)))
    first, rest = to_arrow(table, rows[:cut]), to_arrow(table, rows[cut:])
    whole = fold(table, to_arrow(table, rows))
    assert fold(table, whole).equals(whole)
    assert fold(table, pa.concat_tables([fold(table, first), rest])).equals(whole)
    assert fold(table, pa.concat_tables([fold(table, rest), fold(table, first)])).equals(whole)


def test_a_row_that_says_nothing_of_a_group_leaves_it_as_it_is() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    told = {"id": "a", "part": 0, "status": "done", "_attempt": 1, "_at": at, "latest": None}
    silent = {"id": "a", "part": 0, "latest": at}
    [row] = folded(MIXED, [told, silent])
    assert (row["status"], row["latest"]) == ("done", at)


def test_a_null_that_is_newer_wins_with_its_group() -> None:
    failed = {"id": "a", "part": 0, "status": "failed", "error": "oh", "_attempt": 1}
    done = {"id": "a", "part": 0, "status": "done", "error": None, "_attempt": 2}
    [row] = folded(MIXED, [done, failed])
    assert (row["status"], row["error"]) == ("done", None)


def test_nothing_folds_to_nothing() -> None:
    assert folded(TABLES, []) == []


@pytest.mark.parametrize("name", COLUMNS.key)
def test_a_row_without_its_whole_key_is_refused(name: str) -> None:
    row = {"table_id": "t", "column_id": "c"} | {name: None}
    with pytest.raises(Invalid, match=f"no {name}"):
        folded(COLUMNS, [row])


def test_what_an_older_file_lacks_is_null_and_its_types_are_brought_up() -> None:
    old = pa.table({"catalog_id": pa.array(["c"], pa.large_string()), "name": ["default"]})
    rows = conform(CATALOGS, old)
    assert rows.schema == CATALOGS.schema
    [row] = to_python(rows)
    assert (row["catalog_id"], row["name"], row["_commit"]) == ("c", "default", None)


def test_an_older_row_without_an_order_loses_against_any_that_has_one() -> None:
    old = conform(CATALOGS, pa.table({"catalog_id": ["c"], "name": ["old"]}))
    new = to_arrow(CATALOGS, [{"catalog_id": "c", "name": "new", "_commit": 0, "_position": 0}])
    for parts in ([old, new], [new, old]):
        [row] = to_python(fold(CATALOGS, pa.concat_tables(parts)))
        assert row["name"] == "new"


@given(st.text())
def test_a_bucket_is_the_crc_32_of_the_bytes(value: str) -> None:
    if not value.isprintable():
        return
    assert TABLES.bucket_of(value) == zlib.crc32(value.encode("utf-8")) % 64
    rows = to_arrow(TABLES, [{"schema_id": value, "table_id": "t"}])
    assert TABLES.buckets_of(rows) == [TABLES.bucket_of(value)]


def test_known_buckets_never_change() -> None:
    # Whoever changes these makes every published file unreadable.
    assert TABLES.bucket_of("018f5b0e-7a3c-7000-8000-000000000001") == 4
    assert COLUMNS.bucket_of("018f5b0e-7a3c-7000-8000-000000000001") == 68
    assert CATALOGS.bucket_of("anything") == 0
    assert CATALOGS.buckets_of(to_arrow(CATALOGS, [{"catalog_id": "c"}] * 2)) == [0, 0]


def test_in_tier_1_the_commit_and_the_place_in_it_decide_whole_rows() -> None:
    assert [rule.keep for table in TIER1.values() for rule in table.rules] == [
        MergeStrategy.LAST
    ] * 7
    orders = {rule.order for table in TIER1.values() for rule in table.rules}
    assert orders == {("_commit", "_position")}
