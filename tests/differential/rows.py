"""Rows: what a way of the events comes to, and how two ways are compared.

All columns count, hidden ones too. Only rows of the quarantine go by where a line lies, which is what ways
differ in: of these the lines themselves are compared, each once.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa

from arco.compactor.job import SegmentRef
from arco.events.read import Reading, read_lines
from arco.fold.fold import fold
from arco.fold.tier2 import OCCURRED, QUARANTINE, TIER2

Tables = dict[str, pa.Table]
Segments = Mapping[SegmentRef, list[bytes]]

_PLACE = ("stream", "segment", "line", OCCURRED)


def read(domain: str, segments: Segments, bounds: Mapping[str, datetime]) -> Reading:
    """All lines at once, not folded."""
    return Reading.joined(
        read_lines(domain, at.stream, at.seq, lines, bounds) for at, lines in segments.items()
    )


def folded(domain: str, rows: Mapping[str, pa.Table]) -> Tables:
    """One row a key; tables without rows are left out."""
    made = {name: fold(TIER2[domain][name], each) for name, each in rows.items()}
    return {name: each for name, each in made.items() if each.num_rows}


def differences(way: str, wanted: Tables, found: Tables) -> list[str]:
    """What another way has come to, if that is not the same."""
    return [
        f"{way}: {name}: {_difference(wanted.get(name), found.get(name))}"
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


def _difference(wanted: pa.Table | None, found: pa.Table | None) -> str:
    """The first row that only one of them has."""
    ours, theirs = (_lines(each) for each in (wanted, found))
    only_ours = [row for row in ours if row not in theirs]
    only_theirs = [row for row in theirs if row not in ours]
    return f"{only_ours[:1]} should be there, {only_theirs[:1]} is instead"


def _lines(rows: pa.Table | None) -> list[dict[str, Any]]:
    found: Iterable[dict[str, Any]] = () if rows is None else rows.to_pylist()
    return list(found)
