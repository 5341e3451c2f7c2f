"""Codes: texts as small numbers, so that edges are sorted, joined and walked as arrays."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Places = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def code(columns: Sequence[pa.Array]) -> tuple[list[Places], list[str]]:
    """For each column the places of its texts, -1 for nulls; and the distinct texts in their order.

    A place follows from the texts alone, so whatever is ordered by places is ordered the same again.
    """
    together = pa.concat_arrays([column.cast(pa.string()) for column in columns])
    encoded = together.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    indices = encoded.indices.fill_null(-1).to_numpy().astype(np.int64)
    places = np.where(indices < 0, -1, rank[indices]) if len(order) else indices
    ends = np.cumsum([len(column) for column in columns])[:-1]
    return list(np.split(places, ends)), encoded.dictionary.take(pa.array(order)).to_pylist()


def mask(values: pa.Array) -> Mask:
    """A column of booleans; null is false."""
    found: Mask = values.fill_null(fill_value=False).to_numpy(zero_copy_only=False).astype(np.bool_)
    return found


def starts(sorted_places: Places, count: int) -> Places:
    """Where each place begins in an array that is sorted by places, and where the last one ends."""
    return np.searchsorted(sorted_places, np.arange(count + 1)).astype(np.int64)


def ranges(begin: Places, end: Places) -> Places:
    """All numbers of several ranges, one range after the other."""
    sizes = end - begin
    total = int(sizes.sum())
    if not total:
        return np.empty(0, np.int64)
    before = np.cumsum(sizes) - sizes
    numbers: Places = np.arange(total) + np.repeat(begin - before, sizes)
    return numbers


def moments(times: pa.Array | pa.ChunkedArray) -> list[datetime | None]:
    """Times of Arrow as those of Python, each distinct one made once: one run shows many edges."""
    microseconds = times.cast(pa.int64()).to_pylist()
    known: dict[int | None, datetime | None] = {
        each: None if each is None else _EPOCH + timedelta(microseconds=each)
        for each in set(microseconds)
    }
    return [known[each] for each in microseconds]
