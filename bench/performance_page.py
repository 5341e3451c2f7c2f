"""The page `docs/performance.md`: goals and measured values, the machine, the versions of the peers."""

import os
import platform
import statistics
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.comparison import (
    AGAIN_S,
    ARCO,
    POLARIS,
    REFERENCE,
    ROUNDS,
    SECONDS,
    WARM_S,
    CatalogServer,
    Comparison,
    Result,
    number,
)

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"

_SYNCED_WRITES = 50
_NOISY_CORES = 0.25

_HEAD = """\
# Performance

`make bench ONLY="{command}"`
generated this page; [Benchmarks](reference/benchmarks.md) describes the other figures. It compares Arco
with other Iceberg REST catalogs on one machine. A goal says how many times as fast as the reference server
Arco should be.

- {date}. {machine}
- Arco {arco}: `arco up` on an empty directory of that disk and without further flags: it syncs what it
  writes, and runs Spark.
{peers}
- One server runs at a time. Rounds: {rounds}; in each, every server starts on an empty directory. A figure
  is the median of the rounds.
- Each operation is warmed up for {warm_s:g} s before it is measured; for {again_s:g} s where only the
  number of connections or the table changes. Reads and commits are measured for {seconds:g} s. Creates are
  counted: 40 by one client; by 16 clients as many as fill the catalog to 1,000 tables. What the warm-up
  creates is dropped at once.
- Clients are processes of their own and keep their HTTP/1.1 connections: 16, if the line names no other
  number. All servers get the same requests, without `Idempotency-Key`, which engines do not send by
  default.
- {noise}
"""

_REFERENCE = """\
- The reference server: `RESTCatalogServer` of Apache Iceberg {version}, with its state in SQLite and its
  tables on the same disk."""

_POLARIS = """\
- Polaris {version}, with its state in memory, which is its default, its tables on the same disk, and a
  token with each request."""

_GOALS = """
## Goals

A ratio above 1 means that Arco is faster.
"""

_COSTS = """
## Costs

- CPU: processor time of the server and all its child processes, ms for each successful request.
- switches: voluntary context switches of the same processes, for each such request.
- memory: the peak of their resident memory, MB; pages that processes share count for each of them.
- refused, lost: answers that were no success, in all rounds; confirmed writes that could not be read
  afterwards.
"""

_NATIVE = """
## CREATE TABLE of the native API
"""

_WRITE = """
The write, in the last goal of commits: a file as large as the table's metadata is written and synced in
{floor_ms:.1f} ms; one of these commits takes {taken_ms:.1f} ms."""


@dataclass(frozen=True)
class Machine:
    """What was measured on."""

    cores: int
    memory_gb: float
    sync_ms: float  # to create and sync a small file

    def __str__(self) -> str:
        return (
            f"{platform.system()} on {platform.machine()}, {self.cores} cores, "
            f"{self.memory_gb:.0f} GB of memory, a local disk that creates and syncs a small file\n"
            f"  in {self.sync_ms:.2f} ms."
        )


def this_machine(scratch: Path) -> Machine:
    """The machine, and the disk below `scratch`."""
    times_ms = []
    with TemporaryDirectory(dir=scratch) as folder:
        for turn in range(_SYNCED_WRITES):
            began = time.perf_counter()
            with (Path(folder) / str(turn)).open("wb") as file:
                file.write(bytes(4_096))
                file.flush()
                os.fsync(file.fileno())
            times_ms.append((time.perf_counter() - began) * 1000)
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(os.cpu_count() or 1, memory_bytes / 2**30, statistics.median(times_ms))


def page(
    names: list[str],
    comparisons: list[Comparison],
    servers: list[CatalogServer],
    machine: Machine,
) -> str:
    """The page, from the comparisons of the benchmarks with these names."""
    versions = {server.name: server.version for server in servers}
    peers = [
        text.format(version=versions[name]) if name in versions else f"- {name}: not measured."
        for name, text in ((REFERENCE, _REFERENCE), (POLARIS, _POLARIS))
    ]
    head = _HEAD.format(
        command=" ".join(names),
        date=datetime.now(UTC).date(),
        machine=machine,
        arco=versions[ARCO],
        peers="\n".join(peers),
        rounds=ROUNDS,
        warm_s=WARM_S,
        again_s=AGAIN_S,
        seconds=SECONDS,
        noise=_noise(comparisons),
    )
    iceberg = [each for each in comparisons if not each.is_native]
    native = [each for each in comparisons if each.is_native]
    measured = [name for name in (ARCO, REFERENCE, POLARIS) if name in versions]
    goals, costs, creates = _goals(iceberg, measured), _costs(iceberg, measured), _native(native)
    return "\n".join([head + _GOALS, *goals, _COSTS, *costs, _NATIVE, *creates, ""])


def _noise(comparisons: list[Comparison]) -> str:
    cores = max(result.other_cores for each in comparisons for result in each.results.values())
    if cores <= _NOISY_CORES:
        return f"Other programs used at most {cores:.2f} cores meanwhile."
    return (
        f"Other programs used up to {cores:.2f} cores meanwhile. **The machine was too busy:\n"
        "  measure again before you quote a figure.**"
    )


def _goals(comparisons: list[Comparison], names: list[str]) -> list[str]:
    polaris = [POLARIS, "ratio"] if POLARIS in names else []
    lines = _header(["path", ARCO, REFERENCE, "ratio", "goal", "", *polaris])
    for each in comparisons:
        beside = [_value(each, POLARIS), _ratio(each, POLARIS)] if polaris else []
        met = {True: "reached", False: "missed", None: ""}[each.met]
        values = [_value(each, ARCO), _value(each, REFERENCE), _ratio(each, REFERENCE)]
        lines.append(_row([each.path.title, *values, each.path.goal, met, *beside]))
    for each in comparisons:
        if (floor_ms := each.arco.floor_ms) is not None:
            lines.append(_WRITE.format(floor_ms=floor_ms, taken_ms=1000 / each.arco.value))
    return lines


def _costs(comparisons: list[Comparison], names: list[str]) -> list[str]:
    lines = _header(["path", "server", "CPU", "switches", "memory", "refused", "lost"])
    for each in comparisons:
        for name in names:
            if (result := each.results.get(name)) is not None:
                title = each.path.what if name == ARCO else ""
                lost = "" if result.lost is None else str(result.lost)
                lines.append(_row([title, name, *_used(result), str(result.refused), lost]))
    return lines


def _native(comparisons: list[Comparison]) -> list[str]:
    columns = ["path", "measured", "CPU", "switches", "memory", "CPU of the API process alone"]
    lines = _header([*columns, "longest wait, ms"])
    for each in comparisons:
        alone, longest = number(each.arco.root_cpu_ms), f"{each.arco.longest_ms or 0:,.0f}"
        lines.append(
            _row([each.path.title, number(each.arco.value), *_used(each.arco), alone, longest])
        )
    return lines


def _used(result: Result) -> list[str]:
    return [number(result.cpu_ms), number(result.switches), f"{result.peak_rss_mb:,.0f}"]


def _value(comparison: Comparison, name: str) -> str:
    result = comparison.results.get(name)
    return "" if result is None else number(result.value)


def _ratio(comparison: Comparison, peer: str) -> str:
    ratio = comparison.ratio(peer)
    return "" if ratio is None else f"{ratio:.2f}"


def _header(columns: list[str]) -> list[str]:
    return [_row(columns), _row(["---"] * len(columns))]


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
