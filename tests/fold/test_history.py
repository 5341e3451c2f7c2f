"""Law 7 for every table: any order, duplication, splitting and nesting gives the same rows."""

from random import Random

import pyarrow as pa
import pytest

from arco.fold.fold import SMALL_ROWS, fold
from arco.fold.table import StateTable
from arco.fold.tier1 import TIER1
from arco.fold.tier2 import TIER2
from tests.fold.tables import BARE, MIXED, random_rows, reference, to_arrow, to_python

TABLES = {table.name: table for domain in TIER2.values() for table in domain.values()}
TABLES |= {**TIER1, MIXED.name: MIXED, BARE.name: BARE}
every_table = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
every_way = pytest.mark.parametrize("few", [0, SMALL_ROWS], ids=["paired", "sorted"])

# How many rows, and how many values a column of their key has.
SIZES = [(0, 1), (1, 1), (2, 1), (2, 9), (3, 1), (9, 2), (40, 3), (40, 1), (300, 8), (300, 100)]
MANY = 3 * SMALL_ROWS // 2


def in_pieces(rng: Random, rows: pa.Table) -> list[pa.Table]:
    """The rows cut at random places; some pieces are empty."""
    cuts = sorted(rng.randrange(rows.num_rows + 1) for _ in range(rng.randrange(5)))
    ends = [*cuts, rows.num_rows]
    return [rows.slice(a, b - a) for a, b in zip([0, *cuts], ends, strict=True)]


def nested(rng: Random, table: StateTable, rows: pa.Table, depth: int) -> pa.Table:
    """The rows folded piece by piece, and the pieces in another order."""
    pieces = in_pieces(rng, rows)
    if depth:
        pieces = [nested(rng, table, piece, depth - 1) for piece in pieces]
    rng.shuffle(pieces)
    return fold(table, pa.concat_tables(pieces))


@every_way
@every_table
def test_the_fold_is_the_one_that_plain_python_makes(
    table: StateTable, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arco.fold.fold.SMALL_ROWS", few)
    for seed, (count, keys) in enumerate(SIZES):
        rows = random_rows(table, Random(seed), count, keys=keys)
        assert to_python(fold(table, to_arrow(table, rows))) == reference(table, rows)


@every_table
def test_so_is_the_fold_of_many_rows_in_pieces(table: StateTable) -> None:
    rng = Random(table.name)
    rows = random_rows(table, rng, MANY, keys=round(1000 ** (1 / len(table.key))))
    pieces = pa.concat_tables(in_pieces(rng, to_arrow(table, rows)))
    assert to_python(fold(table, pieces)) == reference(table, rows)


@every_way
@every_table
def test_no_history_of_the_same_rows_changes_them(
    table: StateTable, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arco.fold.fold.SMALL_ROWS", few)
    for seed in range(6):
        rng = Random(seed)
        rows = random_rows(table, rng, rng.choice([1, 5, 60]), keys=rng.choice([1, 3, 20]))
        folded = fold(table, to_arrow(table, rows))
        repeated = rows + rng.choices(rows, k=rng.randrange(20))
        rng.shuffle(repeated)
        history = to_arrow(table, repeated)
        assert fold(table, history).equals(folded)
        assert nested(rng, table, history, depth=2).equals(folded)
        assert fold(table, pa.concat_tables([folded, history, folded])).equals(folded)


@every_table
def test_one_key_may_have_most_of_the_rows(table: StateTable) -> None:
    rows = random_rows(table, Random(table.name), MANY, keys=50, one_key=0.9)
    assert to_python(fold(table, to_arrow(table, rows))) == reference(table, rows)
