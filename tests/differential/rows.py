"""Rows: what a way of the events comes to, and how two ways are compared.

All columns count, hidden ones too. Only rows of the quarantine go by where a line lies, which is what ways
differ in: of these the lines themselves are compared, each once.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from arco.compactor.job import SegmentRef
from arco.events.read import SegmentRows, read_segment
from arco.fold.fold import fold
from arco.fold.table import StateTable
from arco.fold.tier2 import OCCURRED, QUARANTINE, TIER2
from arco.ledger.segment import Segment

Tables = dict[str, pa.Table]
Segments = Mapping[SegmentRef, list[bytes]]

_KEYS = {name: table.key for tables in TIER2.values() for name, table in tables.items()}
_PLACE = ("stream", "segment", "line", OCCURRED)


def read(domain: str, segments: Segments, bounds: Mapping[str, datetime]) -> SegmentRows:
    """All lines at once, not folded."""
    return SegmentRows.joined(
        read_segment(domain, Segment.of(at.stream, at.seq, lines), bounds)
        for at, lines in segments.items()
    )


def folded(domain: str, rows: Mapping[str, pa.Table]) -> Tables:
    """One row a key; tables without rows are left out."""
    made = {name: fold(TIER2[domain][name], each) for name, each in rows.items()}
    return {name: each for name, each in made.items() if each.num_rows}


def in_order(table: StateTable, rows: pa.Table) -> pa.Table:
    """The same rows in the order of a file; if there are two with one key, they stay two."""
    names = dict.fromkeys((*table.sort, *table.key))
    order = pc.sort_indices(rows, sort_keys=[(name, "ascending", "at_start") for name in names])
    return rows.take(order).combine_chunks()


def differences(way: str, wanted: Tables, found: Tables) -> list[str]:
    """What another way has come to, if that is not the same."""
    return [
        f"{way}: {name}: {_difference(name, wanted.get(name), found.get(name))}"
        for name in sorted(wanted.keys() | found.keys())
        if not _same(wanted.get(name), found.get(name))
    ]


def placeless(tables: Tables) -> Tables:
    """Without where the lines of the quarantine lie, so that other layouts can be compared."""
    found = dict(tables)
    rows = found.pop(QUARANTINE.name, None)
    if rows is None:
        return found
    lines = {repr(_without_place(row)): _without_place(row) for row in rows.to_pylist()}
    ordered = [lines[name] for name in sorted(lines)]
    schema = pa.schema([field for field in QUARANTINE.schema if field.name not in _PLACE])
    found[QUARANTINE.name] = pa.Table.from_pylist(ordered, schema)
    return found


def _without_place(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in _PLACE}


def _same(wanted: pa.Table | None, found: pa.Table | None) -> bool:
    return wanted is not None and found is not None and bool(wanted.equals(found))


def _difference(name: str, wanted: pa.Table | None, found: pa.Table | None) -> str:
    """The first row that is not the same in both, and what of it."""
    ours, theirs = (_by_key(name, each) for each in (wanted, found))
    for key in [*ours, *theirs]:
        one, other = ours.get(key), theirs.get(key)
        if one is None or other is None:
            return f"{key} should {'not ' if one is None else ''}be there"
        odd = [column for column in one if one[column] != other[column]]
        if odd:
            told = [f"{column} is {other[column]!r}, not {one[column]!r}" for column in odd]
            return f"{key}: {'; '.join(told)}"
    return "some rows are there twice, or lie in another order"


def _by_key(name: str, rows: pa.Table | None) -> dict[str, dict[str, Any]]:
    key = [part for part in _KEYS[name] if rows is None or part in rows.column_names]
    found = [] if rows is None else rows.to_pylist()
    return {repr([row[part] for part in key] or row): row for row in found}
