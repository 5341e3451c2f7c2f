"""The door: many seeds on several processes, some of them on Spark, or one of them again.

python -m tests.differential --seeds 10000 [--first 0] [--jobs 2] [--spark 300]
python -m tests.differential --seed 17 [--spark 1]
"""

import argparse
import asyncio
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from pathlib import Path

from arco.core.java import check_java
from arco.core.runtime import system_runtime
from tests.differential.seed import Result, check_seed
from tests.differential.spark import SparkSites, check_on_spark

_CHUNK = 10  # seeds that a process takes at a time
_SHOWN = 5  # that failed, and problems of each


class Survey:
    """The results of many seeds, as they come."""

    def __init__(self, where: str, seeds: int) -> None:
        self._where = where
        self._seeds = seeds
        self._began = time.monotonic()
        self._done = 0
        self._tally: Counter[str] = Counter()
        self._failed: list[Result] = []

    def add(self, result: Result) -> None:
        self._done += 1
        self._tally += result.tally
        if result.problems:
            self._failed.append(result)
        if self._done % 20 == 0 or self._done == self._seeds:
            output = f"\r{self._where}: {self._done:,} of {self._seeds:,} seeds, "
            output += f"{len(self._failed)} failed, {self._seconds():.0f} s"
            print(output, end="", file=sys.stderr, flush=True)

    def report(self, replay: str) -> int:
        """Print what was tried and what failed; 1 if anything did."""
        print(file=sys.stderr)
        print(f"{self._where}: {self._done:,} seeds in {self._seconds():.0f} s")
        for name, count in self._tally.items():
            print(f"  {count:>11,} {name}")
        for result in self._failed[:_SHOWN]:
            print(f"\nseed {result.seed}: {len(result.problems)} problems")
            for problem in result.problems[:_SHOWN]:
                print(f"  {problem}")
            print(f"  replay: python -m tests.differential --seed {result.seed}{replay}")
        if self._failed:
            print(f"\nFAILED {len(self._failed)}: {[result.seed for result in self._failed]}")
        else:
            print(f"{self._where}: all ways gave the same rows")
        return int(bool(self._failed))

    def _seconds(self) -> float:
        return time.monotonic() - self._began


def main(arguments: list[str] | None = None) -> int:
    chosen = _parse(arguments)
    if chosen.seed is not None:
        chosen.first, chosen.seeds, chosen.jobs = chosen.seed, 1, 1
        chosen.spark = min(chosen.spark, 1)
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    failed = 0
    if seeds:
        failed |= _in_process(seeds, chosen.jobs, everything=chosen.seed is not None)
    if chosen.spark:
        failed |= asyncio.run(_on_spark(range(chosen.first, chosen.first + chosen.spark)))
    return failed


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.differential", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--seeds", type=int, default=1_000, help="how many in process")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--spark", type=int, default=0, help="how many on Spark, in one session")
    parser.add_argument("--jobs", type=int, default=2, help="on how many processes")
    parser.add_argument("--seed", type=int, help="try all of this one")
    chosen = parser.parse_args(arguments)
    if chosen.seed is None and chosen.seeds < 1 and chosen.spark < 1:
        parser.error("there is nothing to try: --seeds or --spark must be at least 1")
    return chosen


def _in_process(seeds: Sequence[int], jobs: int, *, everything: bool) -> int:
    survey = Survey("in process", len(seeds))
    for result in _results(seeds, jobs, everything=everything):
        survey.add(result)
    return survey.report("")


def _results(seeds: Sequence[int], jobs: int, *, everything: bool) -> Iterator[Result]:
    check = partial(check_seed, everything=everything)
    if jobs <= 1:
        yield from map(check, seeds)
        return
    with multiprocessing.Pool(jobs) as pool:
        yield from pool.imap(check, seeds, chunksize=_CHUNK)


async def _on_spark(seeds: Sequence[int]) -> int:
    survey = Survey("on Spark", len(seeds))
    async for result in _spark_results(seeds):
        survey.add(result)
    return survey.report(" --spark 1")


async def _spark_results(seeds: Sequence[int]) -> AsyncIterator[Result]:
    check_java()
    from arco.compactor.spark.session import open_session

    session = open_session("local[2]")
    try:
        with tempfile.TemporaryDirectory() as root:
            sites = SparkSites(session, system_runtime(), Path(root))
            for seed in seeds:
                yield await check_on_spark(seed, sites)
    finally:
        session.stop()


if __name__ == "__main__":
    sys.exit(main())
