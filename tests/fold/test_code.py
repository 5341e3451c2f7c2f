from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.fold.fold import SMALL_ROWS, encode_ranks, sort_indices

Pair = tuple[str | None, int | None]
pairs = st.lists(
    st.tuples(st.none() | st.text(max_size=2), st.none() | st.integers(-2, 2)), min_size=1
)


def columns(rows: list[Pair]) -> list[pa.Array]:
    return [
        pa.array([row[0] for row in rows], pa.string()),
        pa.array([row[1] for row in rows], pa.int64()),
    ]


def place(row: Pair, *, nulls_last: bool) -> tuple[bool, bytes, bool, int]:
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
                assert place(one, nulls_last=nulls_last) < place(other, nulls_last=nulls_last)


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
    wanted: list[Pair] = [
        (t if "text" in names else None, n if "number" in names else None) for t, n in rows
    ]
    expected = sorted(range(200), key=lambda at: place(wanted[at], nulls_last=nulls_last))
    assert sort_indices(table, names, nulls_last=nulls_last).to_pylist() == expected
