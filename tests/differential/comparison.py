"""Rows of a history by several paths without a store, and how they are compared.

All columns count, including hidden ones. Rows of the quarantine have the position of a line as their key,
in which paths differ, so of these only the lines are compared.
"""

from collections.abc import Mapping
from datetime import datetime
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from arco.compactor.engine import SegmentRef
from arco.events.read import SegmentRows, read_segment
from arco.fold.fold import fold
from arco.fold.table import StateTable
from arco.fold.tier2 import EXECUTIONS_DOMAIN, OCCURRED, QUARANTINE, TIER2
from arco.ledger.segment import Segment
from tests.differential.environment import crooked, straight
from tests.differential.history import History
from tests.differential.oracle import foretell

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


def differences(way: str, wanted: Tables, actual: Tables) -> list[str]:
    """What another way has come to, if that is not the same."""
    return [
        f"{way}: {name}: {_difference(name, wanted.get(name), actual.get(name))}"
        for name in sorted(wanted.keys() | actual.keys())
        if not _same(wanted.get(name), actual.get(name))
    ]


def placeless(tables: Tables) -> Tables:
    """Without where the lines of the quarantine lie, so that other layouts can be compared."""
    stripped = dict(tables)
    rows = stripped.pop(QUARANTINE.name, None)
    if rows is None:
        return stripped
    lines = {repr(_without_place(row)): _without_place(row) for row in rows.to_pylist()}
    ordered = [lines[name] for name in sorted(lines)]
    schema = pa.schema([field for field in QUARANTINE.schema if field.name not in _PLACE])
    stripped[QUARANTINE.name] = pa.Table.from_pylist(ordered, schema)
    return stripped


def _without_place(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in _PLACE}


def _same(wanted: pa.Table | None, actual: pa.Table | None) -> bool:
    return wanted is not None and actual is not None and bool(wanted.equals(actual))


def _difference(name: str, wanted: pa.Table | None, actual: pa.Table | None) -> str:
    """The first row that is not the same in both, and what of it."""
    ours, theirs = (_by_key(name, each) for each in (wanted, actual))
    for key in [*ours, *theirs]:
        one, other = ours.get(key), theirs.get(key)
        if one is None or other is None:
            return f"{key} should {'not ' if one is None else ''}be there"
        odd = [column for column in one if one[column] != other[column]]
        if odd:
            changes = [f"{column} is {other[column]!r}, not {one[column]!r}" for column in odd]
            return f"{key}: {'; '.join(changes)}"
    return "some rows are there twice, or lie in another order"


def _by_key(name: str, rows: pa.Table | None) -> dict[str, dict[str, Any]]:
    key = [part for part in _KEYS[name] if rows is None or part in rows.column_names]
    row_list = [] if rows is None else rows.to_pylist()
    return {repr([row[part] for part in key] or row): row for row in row_list}


def reference(history: History) -> Tables:
    """The rows of a history, read in one piece and folded once."""
    return folded(history.domain, read(history.domain, straight(history), history.bounds).rows)


def bit_by_bit(rng: Random, history: History, segments: Segments) -> Tables:
    """Each segment is folded by itself, then whatever is there with whatever else, in any order."""
    domain, bounds = history.domain, history.bounds
    heaps: dict[str, list[pa.Table]] = {}
    for at, lines in segments.items():
        for name, rows in read(domain, {at: lines}, bounds).rows.items():
            heaps.setdefault(name, []).append(fold(TIER2[domain][name], rows))
    return {name: _heaped(rng, domain, name, heap) for name, heap in heaps.items()}


def _heaped(rng: Random, domain: str, name: str, heap: list[pa.Table]) -> pa.Table:
    while len(heap) > 1:
        rng.shuffle(heap)
        some = [heap.pop() for _ in range(rng.randint(2, len(heap)))]
        heap.append(fold(TIER2[domain][name], pa.concat_tables(some)))
    return heap[0]


def other_orders(rng: Random, history: History, wanted: Tables) -> list[str]:
    """What is wrong when the lines come in another order, twice, in pieces."""
    segments = crooked(rng, history)
    at_once = folded(history.domain, read(history.domain, segments, history.bounds).rows)
    piecewise = bit_by_bit(rng, history, segments)
    return [
        *differences("another order", placeless(wanted), placeless(at_once)),
        *differences("bit by bit", at_once, piecewise),
    ]


_Rows = dict[tuple[Any, ...], dict[str, Any]]


def check_oracle(history: History, tables: Tables) -> list[str]:
    """How the rows of a history differ from those of the oracle."""
    wrong = _quarantine(history, tables)
    if history.domain != EXECUTIONS_DOMAIN:
        return wrong
    for name, rows in foretell(history).items():
        seen = _visible_by_key(tables, name)
        if seen.keys() != rows.keys():
            wrong.append(f"oracle: {name}: there are {sorted(seen)}, not {sorted(rows)}")
            continue
        for key, row in rows.items():
            wrong += [f"oracle: {name} {key}: {problem}" for problem in row.problems(seen[key])]
    return wrong


def _visible_by_key(tables: Tables, name: str) -> _Rows:
    """Rows with all columns that say something, by their keys."""
    if name not in tables:
        return {}
    table = TIER2[EXECUTIONS_DOMAIN][name]
    rows = tables[name].select([*table.visible, OCCURRED]).to_pylist()
    return {tuple(row.pop(part) for part in table.key): row for row in rows}


def _quarantine(history: History, tables: Tables) -> list[str]:
    """The quarantine holds all lines that cannot be folded, unchanged, and no others."""
    wanted = {
        event.line.decode(errors="replace") for event in history.events if event.envelope is None
    }
    rows = tables[QUARANTINE.name].to_pylist() if QUARANTINE.name in tables else []
    kept = {row["body"] for row in rows if row["reason"] is not None}
    if QUARANTINE.name in history.bounds:
        wanted &= kept  # the oldest may have been let go
    return [] if kept == wanted else [f"oracle: quarantine: {kept ^ wanted}"]
