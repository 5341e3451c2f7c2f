"""Codes: columns as one whole number a row, equal and sorted as the columns are.

Strings are costly to compare and to sort, and most rows have some in common with others. So each distinct
value is looked at once and gets its place among the others; from there on, rows are compared by numbers.
Where there are few rows that takes more steps than it spares, and they are sorted as they are.
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

FEW = 2048
_LARGEST = 1 << 63


def sort(rows: pa.Table, names: Sequence[str], *, nulls_last: bool = False) -> pa.Array:
    """Where the rows lie that come first, second and so on; rows that are equal stay as they are."""
    nulls = "at_end" if nulls_last else "at_start"
    if few(rows):
        return pc.sort_indices(rows, sort_keys=[(name, "ascending", nulls) for name in names])
    columns = [whole(rows, name) for name in names]
    values = columns[0] if len(columns) == 1 else coded(columns, nulls_last=nulls_last)
    return pc.array_sort_indices(values, null_placement=nulls)


def coded(columns: Sequence[pa.Array], *, nulls_last: bool = False) -> pa.Array:
    """A number for each row, by the first column, then by the second and so on."""
    codes, size = _places(columns[0], nulls_last=nulls_last)
    for column in columns[1:]:
        places, more = _places(column, nulls_last=nulls_last)
        if size * more > _LARGEST:
            codes, size = _places(codes, nulls_last=nulls_last)
        codes = pc.add(pc.multiply(codes, pa.scalar(more, pa.uint64())), places)
        size *= more
    return codes


def few(rows: pa.Table) -> bool:
    """Whether there are so few rows that codes are not worth their while."""
    return bool(rows.num_rows <= FEW)


def whole(rows: pa.Table, name: str) -> pa.Array:
    """A column in one piece."""
    column = rows.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _places(column: pa.Array, *, nulls_last: bool) -> tuple[pa.Array, int]:
    """The place of each value among the distinct ones, and a number that is above all places."""
    encoded = column.dictionary_encode()
    above = len(encoded.dictionary) + 1
    places = pc.rank(encoded.dictionary).take(encoded.indices)
    if places.null_count:
        places = places.fill_null(pa.scalar(above if nulls_last else 0, pa.uint64()))
    return places, above + 1
