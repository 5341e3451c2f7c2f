"""`arco up` as a process on a local directory, asked by another one: lists, cached reads, and its start."""

import contextlib
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from arco.core.runtime import Runtime
from bench.bare_server import Canned
from bench.catalog_ddl import LARGE
from bench.figure import Figure, percentile
from bench.fill import CATALOG, Shape, filled, schema_name, table_name
from bench.load import Connection, Load, Plan, Read, load, request
from bench.process import Server, arco_up, first_line, running

MILLION = Shape(tables=1_000_000, schemas=1_000, columns=0)

_ROUNDS = 5
_SECONDS = 2.0
_CONNECTIONS = 16
_STARTS = 5
_TEMPLATE = "/api/v1/catalogs/{catalog}/schemas/{schema}/tables/{table}"


async def run(runtime: Runtime, scratch: Path) -> list[Figure]:
    """Measure on catalogs of their own."""
    with TemporaryDirectory(dir=scratch) as folder:
        place = Path(folder)
        large = await filled(runtime, scratch, LARGE, place / "large")
        million = await filled(runtime, scratch, MILLION, place / "million")
        return await runtime.tasks.in_thread(
            lambda: [*_lists(million), *_cached_reads(large, place), _starts(large, place)]
        )


def _lists(root: Path) -> list[Figure]:
    pages = [f"{_tables(number)}?page_size=100" for number in range(MILLION.schemas)]
    with arco_up(root) as server:
        first_ms = _times(server, pages)
        again_ms = _times(server, [pages[1]] * 1_000)
    p50 = percentile(first_ms, 0.5)
    return [
        Figure(
            "100 of the 1,000 tables of a schema, of a million, served, p50 ms",
            f"{p50:.2f}",
            promised="10 ms",
            met=p50 <= 10,
        ),
        Figure(
            "  p99 ms; asked for again, p50 ms",
            f"{percentile(first_ms, 0.99):.1f}; {percentile(again_ms, 0.5):.2f}",
        ),
    ]


def _cached_reads(root: Path, scratch: Path) -> list[Figure]:
    path = f"{_tables(7)}/{table_name(7)}"
    canned = scratch / "canned.json"
    ours, bare = [], []
    with arco_up(root) as server:
        canned.write_bytes(msgspec.json.encode(_canned(server.port, path)))
        with _bare(canned) as bare_server:
            for _ in range(_ROUNDS):
                ours.append(_load(server, path))
                bare.append(_load(bare_server, path))
    rate, baseline = (percentile([each.rate for each in loads], 0.5) for loads in (ours, bare))
    work, least = (percentile([each.cpu_ms for each in loads], 0.5) for loads in (ours, bare))
    return [
        Figure(
            "cached table read, requests/s (baseline: bare Starlette, same bytes)",
            f"{rate:,.0f}",
            f"{baseline:,.0f}",
            f"{rate / baseline:.0%}",
            "40 %",
            rate >= 0.4 * baseline,
        ),
        Figure(
            "  processor time of the server, µs a request",
            f"{work * 1000:.0f}",
            f"{least * 1000:.0f}",
            f"{least / work:.0%}",
        ),
    ]


def _starts(root: Path, scratch: Path) -> Figure:
    ours, empty = [], []
    for number in range(_STARTS):
        ours.append(_start_s(root))
        empty.append(_start_s(scratch / f"empty-{number}"))
    full_s, empty_s = percentile(ours, 0.5), percentile(empty, 0.5)
    return Figure(
        "start of `arco up` at 100,000 tables (baseline: on an empty directory), s",
        f"{full_s:.2f}",
        f"{empty_s:.2f}",
        f"{full_s / empty_s:.2f}",
        "2",
        full_s <= 2 * empty_s,
    )


def _start_s(root: Path) -> float:
    began = time.perf_counter()
    with arco_up(root):
        return time.perf_counter() - began


@contextlib.contextmanager
def _bare(canned: Path) -> Iterator[Server]:
    command = [sys.executable, "-m", "bench.bare_server", str(canned)]
    with running(command, ends=(-signal.SIGTERM, 0)) as process:
        yield Server(process.pid, int(first_line(process)))


def _canned(port: int, path: str) -> Canned:
    """What our server answers, for another to answer too."""
    with contextlib.closing(Connection(port)) as connection:
        connection.send(request("GET", path, {}))
        answer = connection.answer()
    lines = (line.split(": ", 1) for line in answer.head.decode("latin-1").split("\r\n")[1:])
    headers = {name: value for name, value in lines if name not in {"date", "content-length"}}
    return Canned(path=_TEMPLATE, headers=headers, body=answer.body)


def _load(server: Server, path: str) -> Load:
    read = Read(paths=(path,))
    return load(
        server, Plan(port=server.port, seconds=_SECONDS, connections=_CONNECTIONS, read=read)
    )


def _times(server: Server, paths: list[str]) -> list[float]:
    """How long each path took in ms, asked for one after the other."""
    read = Read(paths=tuple(paths))
    return load(server, Plan(port=server.port, count=len(paths), connections=1, read=read)).ms


def _tables(schema: int) -> str:
    return f"/api/v1/catalogs/{CATALOG}/schemas/{schema_name(schema)}/tables"
