"""Compaction of a backlog on Spark, against a plain fold of the same lines in one process.

Two million mixed events, warm: the cycle from the first probe to the manifest, merges apart. Then ten
million in the same heap, and a small cycle on a state of a million rows.
"""

import multiprocessing
import time
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from arco.compactor.domain_compactor import CycleReport, DomainCompactor
from arco.compactor.spark.engine import SparkEngine
from arco.compactor.spark.session import open_session
from arco.core.errors import Corrupt
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.storage.address import Address
from arco.storage.local import LocalBackend
from arco.storage.open import make_store_spec, open_store
from arco.storage.roles import Role
from arco.storage.store import Store
from bench.figure import Figure
from bench.mixed_events import A_RUN, CHECKS, DOMAIN, PARTITIONS, TASKS, fill_ledger
from bench.plain_fold import PlainFold

_RUNS = 2_000_000 // A_RUN
_MANY = 5  # times as many, in the same heap
_SMALL_RUNS = 100 // A_RUN + 1


class _Yard:
    """A store with a ledger, and a compactor on a session that is warm."""

    def __init__(self, folder: Path, runtime: Runtime, engine: SparkEngine) -> None:
        self._folder = folder
        self._runtime = runtime
        self._engine = engine

    async def fill(self, runs: int, *, first_run: int = 0) -> None:
        """Put events into the ledger that are not folded yet."""
        store = await self._open(Role.API)
        await fill_ledger(store, self._runtime, runs, first_run=first_run)

    async def compact(self) -> tuple[list[CycleReport], float]:
        """Fold all there is; the cycles, and the seconds that they took."""
        compactor = DomainCompactor(await self._open(Role.COMPACTOR), DOMAIN, self._engine)
        cycles, began = [], time.perf_counter()
        while (cycle := await compactor.cycle(everything=True)) is not None:
            cycles.append(cycle)
        return cycles, time.perf_counter() - began

    async def merge(self) -> tuple[list[CycleReport], float]:
        """Bring the tail into the base."""
        compactor = DomainCompactor(await self._open(Role.COMPACTOR), DOMAIN, self._engine)
        cycles, began = [], time.perf_counter()
        while (cycle := await compactor.merge()) is not None:
            cycles.append(cycle)
        return cycles, time.perf_counter() - began

    async def _open(self, role: Role) -> Store:
        backend = LocalBackend(self._folder, self._runtime)
        return await open_store(backend, self._runtime, role=role)


async def run(runtime: Runtime, scratch: Path) -> list[Figure]:
    """Measure Spark and then the plain fold, each with the machine for itself."""
    session = open_session()
    try:
        return await _measure(runtime, scratch, session)
    finally:
        session.stop()


async def _measure(runtime: Runtime, scratch: Path, session: SparkSession) -> list[Figure]:
    async with AsyncExitStack() as stack:
        folders = [Path(stack.enter_context(TemporaryDirectory(dir=scratch))) for _ in range(3)]
        yards = []
        for folder in folders:
            spec = make_store_spec(Address("file", str(folder)), Scope())
            yards.append(_Yard(folder, runtime, SparkEngine(session, spec, runtime)))
        warm, many, _ = yards
        await yards[2].fill(20_000 // A_RUN)
        await yards[2].compact()
        await warm.fill(_RUNS)
        cycles, seconds = await warm.compact()
        _check(cycles, _RUNS)
        plain = _plain_rate(folders[0])
        await many.fill(_RUNS * _MANY)
        more, longer = await many.compact()
        _check(more, _RUNS * _MANY)
        merges, merging = await warm.merge()
        state_bytes = sum(cycle.size_bytes for cycle in merges)
        await warm.fill(_SMALL_RUNS, first_run=_RUNS * _MANY)
        [small], small_s = await warm.compact()
    rate = _RUNS * A_RUN / seconds
    share = small.size_bytes / state_bytes
    linear = longer / seconds / _MANY
    return [
        Figure(
            f"compaction of {_RUNS * A_RUN:,} events on Spark, warm, events/s",
            f"{rate:,.0f}",
            f"{plain:,.0f}",
            f"{rate / plain:.2f} x",
            "100,000 and 1.5 x",
            rate >= 100_000 and rate >= 1.5 * plain,
        ),
        Figure(
            f"compaction of {_MANY} times as many in the same heap, seconds",
            f"{longer:.1f}",
            f"{seconds:.1f}",
            f"{linear:.2f} x linear",
            "1.25 x",
            linear <= 1.25,
        ),
        Figure("merging of the first backlog into the base, seconds", f"{merging:.1f}"),
        Figure(
            f"small cycle, {small.counts.events} events on {_rows(_RUNS):,} rows: bytes written",
            f"{small.size_bytes:,}",
            f"{state_bytes:,}",
            f"{share:.3%}",
            "1 %",
            share <= 0.01,
        ),
        Figure("small cycle on Spark, warm, seconds", f"{small_s:.2f}"),
    ]


def _plain_rate(folder: Path) -> float:
    """Events a second of the plain fold, in a fresh process: what others have in memory slows it down."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_plain, (folder,))


def _plain(folder: Path) -> float:
    """Read the same segments, one after the other, and fold their lines."""
    fold, began = PlainFold(), time.perf_counter()
    for segment in sorted(folder.glob(f"**/ledger/{DOMAIN}/*/*.jsonl")):
        fold.take(segment.read_bytes().split(b"\n")[1:-1])
    taken = time.perf_counter() - began
    if fold.rows() != _rows(_RUNS):
        raise AssertionError(f"the plain fold has {fold.rows()} rows")
    return _RUNS * A_RUN / taken


def _rows(runs: int) -> int:
    """How many rows the load makes: each of its events reports another partition or check."""
    return runs * (1 + TASKS + PARTITIONS + CHECKS)


def _check(cycles: list[CycleReport], runs: int) -> None:
    events = sum(cycle.counts.events for cycle in cycles)
    odd = sum(cycle.counts.quarantined + cycle.counts.late for cycle in cycles)
    if events != runs * A_RUN or odd:
        raise Corrupt(f"{events} events were folded, {odd} of them oddly")
