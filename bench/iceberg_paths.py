"""Iceberg's operations as engines send them, measured on Arco and its peers: reads, creates, commits.

All servers are sent the same requests, without an idempotency key, as engines send none by default.
"""

import json
import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import unquote, urlsplit

from bench.comparison import (
    AGAIN_S,
    SECONDS,
    WARM_S,
    MeasuredPath,
    PathGroup,
    Round,
    Unit,
    all_succeeded,
)
from bench.load import Load, Read, Write
from bench.process import await_calm
from bench.rest import Catalog, Table, commit_of, new_table

CLIENTS = 16

_NAMESPACES = 20  # over which created tables are spread
_FEW, _MANY = 10, 1_000
_CREATES = 40  # by one client
_TABLES = 50
_SNAPSHOTS = 9_000
_SYNCED_WRITES = 10
_GZIP = {"Accept-Encoding": "gzip"}

Measured = Iterator[tuple[MeasuredPath, Round]]

CONFIG = MeasuredPath("config", Unit.REQUESTS, times=0.8)
NAMESPACE = MeasuredPath("get namespace", Unit.REQUESTS, times=0.8)
LOAD = MeasuredPath("loadTable small", Unit.REQUESTS, times=2)
LOAD_ALONE = MeasuredPath("loadTable small, one connection", Unit.P50, times=1.2)


def _reads(catalog: Catalog) -> Measured:
    catalog.make_namespace("db")
    table = catalog.make_table("db", "small")
    catalog.add_snapshots(table, 1)
    await_calm(catalog.server, quiet_s=4)  # the first change starts Spark
    yield CONFIG, _read(catalog, catalog.config_path)
    yield NAMESPACE, _read(catalog, catalog.namespace("db"))
    yield LOAD, _read(catalog, table.path)
    yield LOAD_ALONE, _read(catalog, table.path, connections=1, warm_s=AGAIN_S)


def _read(
    catalog: Catalog,
    path: str,
    headers: dict[str, str] | None = None,
    *,
    connections: int = CLIENTS,
    status: int = 200,
    warm_s: float = WARM_S,
) -> Round:
    read = Read(paths=(path,), headers=headers or {}, status=status)
    return Round(catalog.load(read, connections=connections, seconds=SECONDS, warm_s=warm_s))


_LARGE = {
    (1_000, ""): MeasuredPath("loadTable, 1,000 snapshots", Unit.REQUESTS, times=5),
    (1_000, "gzip"): MeasuredPath("loadTable, 1,000 snapshots, gzip", Unit.REQUESTS, times=20),
    (9_000, ""): MeasuredPath("loadTable, 9,000 snapshots", Unit.REQUESTS, times=20),
    (9_000, "gzip"): MeasuredPath("loadTable, 9,000 snapshots, gzip", Unit.REQUESTS, times=50),
}
_UNCHANGED = MeasuredPath("loadTable, 9,000 snapshots, 304", Unit.REQUESTS, at_least=5_000)
_REFS = MeasuredPath("loadTable, 9,000 snapshots, refs only", Unit.REQUESTS)


def _large_loads(catalog: Catalog) -> Measured:
    """Large answers; a peer that does not know ETags has no figure for an unchanged table."""
    catalog.make_namespace("db")
    for (count, encoding), path in _LARGE.items():
        if not encoding:
            table = catalog.make_table("db", f"table_{count}")
            catalog.add_snapshots(table, count)
        yield path, _read(catalog, table.path, _GZIP if encoding else {})
    if etag := catalog.etag(table.path):
        yield _UNCHANGED, _read(catalog, table.path, {"If-None-Match": etag}, status=304)
    yield _REFS, _read(catalog, f"{table.path}?snapshots=refs")


CREATE_FEW = MeasuredPath(f"createTable, one client, {_FEW} tables", Unit.P50, times=1)
CREATE_MANY = MeasuredPath(f"createTable, one client, {_MANY:,} tables", Unit.P50, times=1)
CREATE_TOGETHER = MeasuredPath(f"createTable, {CLIENTS} clients", Unit.PER_S, times=3)


def _creates(catalog: Catalog) -> Measured:
    """The tables of the warm-up are deleted at once: the catalog is to have as many as is said."""
    names = [f"db_{number}" for number in range(_NAMESPACES)]
    for name in names:
        catalog.make_namespace(name)
    places = [catalog.tables(name) for name in names]
    warm = _create("warm", places, undo=True)
    all_succeeded(catalog.load(warm, connections=CLIENTS, seconds=WARM_S))
    for number in range(_FEW):
        catalog.make_table(names[number], f"first_{number}")
    few = catalog.load(_create("few", places), connections=1, count=_CREATES)
    yield CREATE_FEW, all_succeeded(few)
    missing = _MANY - _FEW - _CREATES
    fill = catalog.load(_create("fill", places), connections=CLIENTS, count=missing)
    yield CREATE_TOGETHER, all_succeeded(fill)
    many = catalog.load(_create("many", places), connections=1, count=_CREATES)
    yield CREATE_MANY, all_succeeded(many)


def _create(label: str, places: list[str], *, undo: bool = False) -> Write:
    name = f"{label}_@writer@_@count@"
    return Write(
        paths=tuple(places),
        bodies=(json.dumps(new_table(name)),) * len(places),
        undo=tuple(f"{place}/{name}" for place in places) if undo else (),
    )


COMMIT = MeasuredPath("commits, one writer", Unit.PER_S, times=3)
COMMIT_SPREAD = MeasuredPath(f"commits, {CLIENTS} writers, {_TABLES} tables", Unit.PER_S, times=3)
COMMIT_HOT = MeasuredPath(f"commits, {CLIENTS} writers, one table", Unit.PER_S, times=3)
COMMIT_LARGE = MeasuredPath(
    f"commits to {_SNAPSHOTS:,} snapshots, one writer", Unit.PER_S, times=10, or_floor=True
)


def _commits(catalog: Catalog) -> Measured:
    catalog.make_namespace("db")
    tables = [catalog.make_table("db", f"table_{number}") for number in range(_TABLES)]
    yield COMMIT, _commit(catalog, tables[:1], 1, WARM_S)
    yield COMMIT_SPREAD, _commit(catalog, tables, CLIENTS, AGAIN_S)
    yield COMMIT_HOT, _commit(catalog, [catalog.make_table("db", "hot")], CLIENTS, AGAIN_S)
    large = catalog.make_table("db", "large")
    catalog.add_snapshots(large, _SNAPSHOTS)
    one = _commit(catalog, [large], 1, WARM_S)
    yield COMMIT_LARGE, Round(one.load, one.lost, _synced_write_ms(catalog, large))


def _commit(catalog: Catalog, tables: list[Table], writers: int, warm_s: float) -> Round:
    write = Write(
        paths=tuple(table.path for table in tables),
        bodies=tuple(commit_of(table) for table in tables),
    )
    load = catalog.load(write, connections=writers, seconds=SECONDS, warm_s=warm_s)
    return Round(load, _lost(catalog, load))


def _lost(catalog: Catalog, load: Load) -> int:
    """How many writers of a table cannot read there what was confirmed to them last, or later."""
    lost = 0
    for path, counts in load.last.items():
        properties = catalog.get(path)["metadata"]["properties"]
        lost += sum(
            int(properties.get(f"bench.writer-{writer}", 0)) < count
            for writer, count in counts.items()
        )
    return lost


def _synced_write_ms(catalog: Catalog, table: Table) -> float:
    """How long it takes to write and sync a file as large as the table's newest metadata file."""
    location = urlsplit(catalog.get(table.path)["metadata-location"])
    file = Path(unquote(location.path))
    body = file.read_bytes()
    times_ms = []
    with TemporaryDirectory(dir=file.parent) as folder:
        for number in range(_SYNCED_WRITES):
            began = time.perf_counter()
            with (Path(folder) / str(number)).open("wb") as copy:
                copy.write(body)
                copy.flush()
                os.fsync(copy.fileno())
            times_ms.append((time.perf_counter() - began) * 1000)
    return statistics.median(times_ms)


READS = PathGroup((CONFIG, NAMESPACE, LOAD, LOAD_ALONE), _reads)
LARGE_LOADS = PathGroup((*_LARGE.values(), _UNCHANGED, _REFS), _large_loads)
CREATES = PathGroup((CREATE_FEW, CREATE_MANY, CREATE_TOGETHER), _creates)
COMMITS = PathGroup((COMMIT, COMMIT_SPREAD, COMMIT_HOT, COMMIT_LARGE), _commits)
