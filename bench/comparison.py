"""Arco and its peers on the same paths, one server at a time.

In each round every server is started on an empty directory, measured on all paths of a benchmark and
stopped before the next is started. Each figure is the median of the rounds.
"""

import os
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory

from arco import __version__
from bench import polaris, reference
from bench.figure import Figure, percentile
from bench.load import Load
from bench.process import arco_up
from bench.rest import Catalog

SECONDS = float(os.environ.get("BENCH_SECONDS", "4"))
WARM_S = float(os.environ.get("BENCH_WARM_SECONDS", "10"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
AGAIN_S = min(WARM_S, 2.0)  # where the server is warm, and only the connections are new

ARCO, REFERENCE, POLARIS = "Arco", "reference server", "Polaris"
FLOOR_TIMES = 1.5


class Unit(StrEnum):
    """What a path is measured in."""

    REQUESTS = "requests/s"
    PER_S = "per s"
    P50 = "p50 ms"


@dataclass(frozen=True)
class MeasuredPath:
    """One line of the table, and the goal for Arco."""

    what: str
    unit: Unit
    times: float | None = None  # as fast as the reference server
    at_least: float | None = None  # in the unit
    or_floor: bool = False  # or not much longer than writing and syncing the same bytes

    @property
    def title(self) -> str:
        return f"{self.what}, {self.unit}"

    @property
    def goal(self) -> str:
        """In words; empty if there is none."""
        if self.times is not None:
            floor = f" or {FLOOR_TIMES} x write" if self.or_floor else ""
            return f"{self.times:g} x{floor}"
        return "" if self.at_least is None else f"{self.at_least:,.0f}"


@dataclass(frozen=True)
class Round:
    """A path as it was measured in one round."""

    load: Load
    lost: int | None = None  # confirmed writes that are not there
    floor_ms: float | None = None  # what it takes to write and sync the bytes of the operation


def all_succeeded(load: Load) -> Round:
    """A load in which nothing may be refused."""
    if load.refused:
        raise AssertionError(load.error)
    return Round(load)


@dataclass(frozen=True)
class Result:
    """A path of one server: the median of the rounds."""

    value: float  # in the unit of the path
    cpu_ms: float  # of all processes, for each request
    root_cpu_ms: float  # of the process that answers alone
    switches: float  # voluntary context switches of all processes, for each request
    peak_rss_mb: float
    longest_ms: float | None  # in all rounds
    other_cores: float
    refused: int  # in all rounds
    lost: int | None
    floor_ms: float | None


@dataclass(frozen=True)
class PathGroup:
    """Paths that are measured on one server, one after the other."""

    paths: tuple[MeasuredPath, ...]
    measure: Callable[[Catalog], Iterator[tuple[MeasuredPath, Round]]]
    is_native: bool = False  # of Arco's native API, which no peer has


@dataclass(frozen=True)
class Comparison:
    """A path on all servers that could be measured."""

    path: MeasuredPath
    is_native: bool
    results: dict[str, Result]

    @property
    def arco(self) -> Result:
        return self.results[ARCO]

    def ratio(self, peer: str = REFERENCE) -> float | None:
        """How many times as fast as a peer Arco is."""
        if peer not in self.results:
            return None
        ours, theirs = self.arco.value, self.results[peer].value
        return theirs / ours if self.path.unit is Unit.P50 else ours / theirs

    @property
    def met(self) -> bool | None:
        """Whether the goal was reached, if there is one and what it needs was measured."""
        path, ratio = self.path, self.ratio()
        if path.at_least is not None:
            return self.arco.value >= path.at_least
        if path.times is None or ratio is None:
            return None
        return ratio >= path.times or (path.or_floor and self._is_near_floor())

    def _is_near_floor(self) -> bool:
        floor_ms = self.arco.floor_ms
        return floor_ms is not None and 1000 / self.arco.value <= FLOOR_TIMES * floor_ms

    def figures(self) -> list[Figure]:
        """The lines of the table."""
        theirs, ratio = self.results.get(REFERENCE), self.ratio()
        figures = [
            Figure(
                self.path.title,
                number(self.arco.value),
                "" if theirs is None else number(theirs.value),
                "" if ratio is None else f"{ratio:.2f} x",
                self.path.goal,
                self.met,
            ),
            Figure(
                "  CPU ms, switches each; peak MB",
                _cost(self.arco),
                "" if theirs is None else _cost(theirs),
            ),
        ]
        if self.is_native and self.arco.longest_ms is not None:
            alone, longest = self.arco.root_cpu_ms, self.arco.longest_ms
            value = f"{alone:.2f}; {longest:,.0f}"
            figures.append(Figure("  CPU ms of the API process alone; longest wait, ms", value))
        if self.path.or_floor and self.arco.floor_ms is not None:
            value = f"{self.arco.floor_ms:.1f}"
            figures.append(Figure("  writing and syncing its bytes, ms", value))
        if (beside := self.ratio(POLARIS)) is not None:
            them = self.results[POLARIS]
            value = f"{number(them.value)}; {_cost(them)}"
            figures.append(Figure("  beside Polaris: as above", "", value, f"{beside:.2f} x"))
        return [*figures, *self._clean()]

    def _clean(self) -> list[Figure]:
        """No requirement can fail in what is sent, so nothing may be refused, and nothing lost."""
        ours, theirs = self.arco, self.results.get(REFERENCE)
        if ours.lost is None:
            return []
        figure = Figure(
            "  refused; confirmed writes lost",
            f"{ours.refused}; {ours.lost}",
            "" if theirs is None else f"{theirs.refused}; {theirs.lost}",
            promised="0; 0",
            met=ours.refused == 0 and ours.lost == 0,
        )
        return [figure]


@dataclass(frozen=True)
class CatalogServer:
    """A server that can be measured."""

    name: str
    version: str
    start: Callable[[Path], AbstractContextManager[Catalog]]


def catalog_servers() -> list[CatalogServer]:
    """Arco, and the peers that are installed; a line is printed for each that is not."""
    servers = [CatalogServer(ARCO, __version__, _arco)]
    for name, peer, start in (
        (REFERENCE, reference, reference.reference),
        (POLARIS, polaris, polaris.polaris),
    ):
        if (reason := peer.missing()) is None:
            servers.append(CatalogServer(name, peer.version(), start))
        else:
            print(f"  {reason}", file=sys.stderr, flush=True)
    return servers


@contextmanager
def _arco(place: Path) -> Iterator[Catalog]:
    """As a user runs it: `arco up --root DIR`."""
    with arco_up(place, spark=True) as server:
        yield Catalog(server, "/iceberg", "default")


def compare(group: PathGroup, servers: list[CatalogServer], scratch: Path) -> list[Comparison]:
    """Measure the paths of a group on every server."""
    measured = [each for each in servers if each.name == ARCO or not group.is_native]
    rounds: dict[tuple[MeasuredPath, str], list[Round]] = {}
    for turn in range(1, ROUNDS + 1):
        for server in measured:
            print(f"  round {turn}: {server.name}", file=sys.stderr, flush=True)
            with (
                TemporaryDirectory(dir=scratch) as folder,
                server.start(Path(folder) / "catalog") as catalog,
            ):
                for path, one in group.measure(catalog):
                    rounds.setdefault((path, server.name), []).append(one)
            os.sync()  # or the next server would wait for what this one has written
    return [
        Comparison(
            path,
            group.is_native,
            {
                server.name: median_result(path, rounds[path, server.name])
                for server in measured
                if (path, server.name) in rounds
            },
        )
        for path in group.paths
    ]


def median_result(path: MeasuredPath, rounds: list[Round]) -> Result:
    """The median of each figure over the rounds; the longest wait and what failed are of all of them."""
    loads = [each.load for each in rounds]
    p50s_ms = [percentile(load.ms, 0.5) for load in loads if load.ms]
    lost = [each.lost for each in rounds if each.lost is not None]
    floors_ms = [each.floor_ms for each in rounds if each.floor_ms is not None]
    median = statistics.median
    return Result(
        value=median(p50s_ms if path.unit is Unit.P50 else [load.rate for load in loads]),
        cpu_ms=median([load.cpu_ms for load in loads]),
        root_cpu_ms=median([load.root_cpu_ms for load in loads]),
        switches=median([load.switches for load in loads]),
        peak_rss_mb=median([load.peak_rss_bytes for load in loads]) / 1e6,
        longest_ms=max((ms for load in loads for ms in load.ms), default=None),
        other_cores=median([load.other_cores for load in loads]),
        refused=sum(load.refused for load in loads),
        lost=sum(lost) if lost else None,
        floor_ms=median(floors_ms) if floors_ms else None,
    )


def number(value: float) -> str:
    """With about three digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _cost(result: Result) -> str:
    return f"{number(result.cpu_ms)}; {number(result.switches)}; {result.peak_rss_mb:,.0f}"
