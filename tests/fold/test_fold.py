import zlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.core.errors import Invalid
from arco.fold.fold import SMALL_ROWS, conform, encode_ranks, fold, retain, sort_indices
from arco.fold.table import MergeStrategy, StateTable
from arco.fold.tier1 import CATALOGS, COLUMNS, TABLES, TIER1
from arco.fold.tier2 import OCCURRED, SCHEDULES, TIER2
from tests.fold.tables import BARE, MIXED, Row, reference, rows_of, to_arrow, to_python

Pair = tuple[str | None, int | None]
pairs = st.lists(
    st.tuples(st.none() | st.text(max_size=2), st.none() | st.integers(-2, 2)), min_size=1
)


def columns(rows: list[Pair]) -> list[pa.Array]:
    return [
        pa.array([row[0] for row in rows], pa.string()),
        pa.array([row[1] for row in rows], pa.int64()),
    ]


def sort_key(row: Pair, *, nulls_last: bool) -> tuple[bool, bytes, bool, int]:
    text, number = row
    absent = (text is None) is nulls_last, (number is None) is nulls_last
    return absent[0], (text or "").encode(), absent[1], number or 0


@pytest.mark.parametrize("nulls_last", [False, True])
@given(rows=pairs)
def test_rows_are_equal_and_sorted_as_their_codes_are(rows: list[Pair], nulls_last: bool) -> None:
    codes = encode_ranks(columns(rows), nulls_last=nulls_last).to_pylist()
    assert None not in codes
    for one, of_one in zip(rows, codes, strict=True):
        for other, of_other in zip(rows, codes, strict=True):
            assert (of_one == of_other) == (one == other)
            if of_one < of_other:
                assert sort_key(one, nulls_last=nulls_last) < sort_key(other, nulls_last=nulls_last)


def test_codes_of_many_columns_with_many_values_do_not_run_over() -> None:
    rng, count = Random(3), 10_000
    rows = [tuple(rng.randrange(2) or rng.randrange(count) for _ in range(6)) for _ in range(count)]
    parts = [pa.array([str(row[at]) for row in rows]) for at in range(6)]
    sizes = [len(set(part.to_pylist())) for part in parts]
    assert min(sizes) ** 6 > 2**64
    codes = encode_ranks(parts).to_pylist()
    by_code = sorted(range(count), key=lambda at: (codes[at], at))
    assert by_code == sorted(range(count), key=lambda at: ([str(v) for v in rows[at]], at))
    assert len(set(codes)) == len(set(rows))


@pytest.mark.parametrize("few", [0, SMALL_ROWS])
@pytest.mark.parametrize("names", [("text",), ("number",), ("text", "number")])
@pytest.mark.parametrize("nulls_last", [False, True])
def test_sorting_keeps_equal_rows_as_they_are(
    few: int,
    names: tuple[str, ...],
    nulls_last: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("arco.fold.fold.SMALL_ROWS", few)
    rng = Random(5)
    rows: list[Pair] = [
        (rng.choice([None, "a", "b", "ä"]), rng.choice([None, -1, 0, 1])) for _ in range(200)
    ]
    table = pa.table(columns(rows), names=["text", "number"])
    sorted_by: list[Pair] = [
        (t if "text" in names else None, n if "number" in names else None) for t, n in rows
    ]
    expected = sorted(range(200), key=lambda at: sort_key(sorted_by[at], nulls_last=nulls_last))
    assert sort_indices(table, names, nulls_last=nulls_last).to_pylist() == expected


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
    duplicates = data.draw(st.lists(st.sampled_from(rows), max_size=4)) if rows else []
    shuffled = data.draw(st.permutations(rows + duplicates))
    assert folded(table, shuffled) == folded(table, rows)


@pytest.mark.parametrize("table", ALL, ids=lambda table: table.name)
@FEW
@given(data=st.data())
def test_batches_change_nothing(table: StateTable, data: st.DataObject) -> None:
    rows = data.draw(rows_of(table))
    cut = data.draw(st.integers(0, len(rows)))
    first, rest = to_arrow(table, rows[:cut]), to_arrow(table, rows[cut:])
    folded_at_once = fold(table, to_arrow(table, rows))
    assert fold(table, folded_at_once).equals(folded_at_once)
    assert fold(table, pa.concat_tables([fold(table, first), rest])).equals(folded_at_once)
    assert fold(table, pa.concat_tables([fold(table, rest), fold(table, first)])).equals(
        folded_at_once
    )


def test_a_row_that_says_nothing_of_a_group_leaves_it_as_it_is() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    full = {"id": "a", "part": 0, "status": "done", "_attempt": 1, "_at": at, "latest": None}
    partial = {"id": "a", "part": 0, "latest": at}
    [row] = folded(MIXED, [full, partial])
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
    # A change of these makes every published file unreadable.
    assert TABLES.bucket_of("018f5b0e-7a3c-7000-8000-000000000001") == 4
    assert COLUMNS.bucket_of("018f5b0e-7a3c-7000-8000-000000000001") == 68
    assert CATALOGS.bucket_of("anything") == 0
    assert CATALOGS.buckets_of(to_arrow(CATALOGS, [{"catalog_id": "c"}] * 2)) == [0, 0]


def test_in_tier_1_the_commit_and_the_position_in_it_decide_complete_rows() -> None:
    assert [rule.keep for table in TIER1.values() for rule in table.rules] == [
        MergeStrategy.LAST
    ] * 7
    orders = {rule.order for table in TIER1.values() for rule in table.rules}
    assert orders == {("_commit", "_position")}


NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MOMENT = timedelta(microseconds=1)
TIER2_TABLES = [table for domain in TIER2.values() for table in domain.values()]


def rows_at(*times: datetime | None) -> pa.Table:
    rows = [{"schedule_id": str(at), OCCURRED: time} for at, time in enumerate(times)]
    return to_arrow(SCHEDULES, rows)


def retained_ids(rows: pa.Table, since: datetime | None) -> list[str]:
    ids: list[str] = retain(SCHEDULES, rows, since).column("schedule_id").to_pylist()
    return ids


def test_rows_expire_once_their_newest_event_is_too_old() -> None:
    rows = rows_at(NOON - MOMENT, NOON, NOON + MOMENT)
    assert retained_ids(rows, NOON) == ["1", "2"]
    assert retained_ids(rows, NOON + MOMENT) == ["2"]
    assert retained_ids(rows, NOON + 2 * MOMENT) == []
    assert retain(SCHEDULES, rows, NOON + 2 * MOMENT).schema == SCHEDULES.schema


def test_without_a_bound_all_rows_stay() -> None:
    rows = rows_at(NOON, None)
    assert retain(SCHEDULES, rows, None) is rows


def test_a_row_that_has_no_moment_stays() -> None:
    assert retained_ids(rows_at(None, NOON - MOMENT, NOON), NOON) == ["0", "2"]


def test_a_bound_in_another_time_zone_is_the_same_moment() -> None:
    bound = NOON.astimezone(timezone(timedelta(hours=9)))
    assert retained_ids(rows_at(NOON - MOMENT, NOON), bound) == ["1"]


def test_rows_in_pieces_and_no_rows_are_fine() -> None:
    pieces = pa.concat_tables([rows_at(NOON - MOMENT), rows_at(), rows_at(NOON, None)])
    assert retained_ids(pieces, NOON) == ["0", "1"]
    assert retained_ids(rows_at(), NOON) == []


def test_tables_that_have_no_moments_keep_their_rows() -> None:
    rows = to_arrow(CATALOGS, [{"catalog_id": "c"}])
    assert retain(CATALOGS, rows, NOON) is rows


@pytest.mark.parametrize("table", TIER2_TABLES, ids=lambda table: table.name)
def test_every_table_of_tier_2_lets_rows_go(table: StateTable) -> None:
    rows = to_arrow(table, [{OCCURRED: NOON - MOMENT}, {OCCURRED: NOON}])
    assert retain(table, rows, NOON).column(OCCURRED).to_pylist() == [NOON]
