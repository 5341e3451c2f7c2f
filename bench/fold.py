"""How fast rows are folded: many of them by one core, and a few as every commit does."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from arco.core.runtime import Runtime
from arco.fold.fold import encode_order_suffixes, encode_orders, fold
from arco.fold.table import ColumnType, StateTable
from arco.fold.tier1 import TABLES
from arco.fold.tier2 import EXECUTIONS, LINEAGE_EDGES, PARTITIONS, TASKS
from bench.figure import Figure

_MANY, _FEW = 500_000, 3
_ROWS_A_KEY = 2.5
_SET_SHARE = 0.6  # the share of events that say something about a group
_START = datetime(2026, 1, 1, tzinfo=UTC)


async def run(runtime: Runtime) -> list[Figure]:
    """Measure the processor's time, in one thread."""
    return await runtime.tasks.in_thread(_figures)


def _figures() -> list[Figure]:
    pa.set_cpu_count(1)
    many = [_many(table) for table in (TASKS, EXECUTIONS, PARTITIONS, LINEAGE_EDGES, TABLES)]
    return [*many, *(_few(table) for table in (TABLES, TASKS))]


def _many(table: StateTable) -> Figure:
    rows = _rows(table, _MANY)
    seconds = min(_seconds(table, rows, times=1) for _ in range(3))
    what = f"fold {_MANY:,} rows of {table.name}, one thread"
    return Figure(what, f"{seconds:.2f} s, {_MANY / seconds:,.0f}/s")


def _few(table: StateTable) -> Figure:
    rows = _rows(table, _FEW)
    seconds = min(_seconds(table, rows, times=200) for _ in range(10))
    return Figure(f"fold {_FEW} rows of {table.name}", f"{seconds * 1e6:.0f} us")


def _seconds(table: StateTable, rows: pa.Table, times: int) -> float:
    began = time.process_time()
    for _ in range(times):
        fold(table, rows)
    return (time.process_time() - began) / times


def _rows(table: StateTable, count: int) -> pa.Table:
    """Rows of which each says something about some groups only, in any order."""
    rng = Random(table.name)
    kinds = {column.name: column.kind for column in table.columns}
    keys = [rng.randrange(max(1, int(count / _ROWS_A_KEY))) for _ in range(count)]
    values: dict[str, list[Any]] = {}
    for place, name in enumerate(table.key, start=1):
        # All but the last column of a key are shared by some hundred rows.
        share = 1 if place == len(table.key) else 500
        values[name] = [
            f"018f5b0e-7a3c-7000-8000-{key // share * 7919 % 10**12:012d}" for key in keys
        ]
    for rule in table.rules:
        is_set = [rng.random() < _SET_SHARE for _ in range(count)]
        for name in (*rule.order, *rule.columns):
            values[name] = [_value(kinds[name], rng) if each else None for each in is_set]
    columns = [pa.array(values[field.name], field.type) for field in table.schema]
    return pa.table(columns, schema=table.schema)


def _value(kind: ColumnType, rng: Random) -> Any:
    number = rng.randrange(10**9)
    digest = rng.randbytes(8)
    values: dict[ColumnType, Callable[[], Any]] = {
        ColumnType.STRING: lambda: f"some words {number}",
        ColumnType.INTEGER: lambda: number,
        ColumnType.BOOLEAN: lambda: number % 2 == 0,
        ColumnType.TIME: lambda: _START + timedelta(milliseconds=number),
        ColumnType.STRINGS: lambda: [f"table {number % 100}"],
        ColumnType.TEXTS: lambda: {"rows": str(number)},
        ColumnType.BYTES: lambda: _order(number, digest),
    }
    return values[kind]()


def _order(number: int, digest: bytes) -> object:
    moment = encode_order_suffixes(np.array([number]), [0], [f"{number:026d}"], [digest])
    return encode_orders(moment)[0].as_py()
