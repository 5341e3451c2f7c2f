"""The door: run many seeds on several processes, or replay one and print what happened.

python -m tests.sim --seeds 1000 [--first 0] [--jobs 2] [--scenario NAME] [--mutant NAME] [--twice]
python -m tests.sim --seed 17 [--scenario NAME] [--mutant NAME]

A survey of all scenarios ends with every pair of crash points of the most important operations, and with
every point at which a process that changes a table, or works on events, may crash or fall asleep.
"""

import argparse
import contextlib
import gc
import multiprocessing
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from . import iceberg_crash, operations_crash
from .crash_points import PAIRED, survey_pairs
from .registry import EVERY_NTH, MUTANTS, SCENARIOS
from .report import Report
from .scenario import Result, run_seed

_CHUNK = 10  # seeds that a worker takes at a time
_COLLECT_AFTER = 100_000  # objects more than before; a run leaves few cycles behind
_SHOWN = 5  # failing seeds that are printed in full
_SLEEPS = {"points to nap at": iceberg_crash.NAP_MS, "points to sleep at": iceberg_crash.SLEEP_MS}


@dataclass(frozen=True)
class Job:
    """One seed of one scenario, for a worker."""

    scenario: str
    seed: int
    mutant: str | None

    def run(self, *, keep_trace: bool = False) -> Result:
        factory = SCENARIOS[self.scenario]
        taken_out = MUTANTS[self.mutant][0].applied() if self.mutant else contextlib.nullcontext()
        with taken_out:
            return run_seed(factory, self.seed, keep_trace=keep_trace)

    def replay(self) -> str:
        """The command that plays this seed again."""
        mutant = f' --mutant "{self.mutant}"' if self.mutant else ""
        return f"python -m tests.sim --scenario {self.scenario} --seed {self.seed}{mutant}"


def main(arguments: list[str] | None = None) -> int:
    chosen = _parse(arguments)
    names = [chosen.scenario] if chosen.scenario else list(SCENARIOS)
    if chosen.seed is not None:
        return _replay([Job(name, chosen.seed, chosen.mutant) for name in names])
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    jobs = [Job(name, seed, chosen.mutant) for seed in seeds for name in names]
    if chosen.twice:
        return _compare(jobs, chosen.jobs)
    if chosen.scenario or chosen.mutant:
        return _survey(jobs, chosen.jobs)
    for name, nth in EVERY_NTH.items():
        print(f"{name}: one seed in {nth}; --scenario {name} runs all of them")
    jobs = [job for job in jobs if job.seed % EVERY_NTH.get(job.scenario, 1) == 0]
    failed = _survey(jobs, chosen.jobs)
    return _crash(chosen.jobs) or failed


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="replay this one and print its trace")
    parser.add_argument("--jobs", type=int, default=2, help="on how many processes")
    parser.add_argument("--scenario", choices=list(SCENARIOS), help="this one alone")
    parser.add_argument("--mutant", choices=list(MUTANTS), help="with this rule taken out")
    parser.add_argument("--twice", action="store_true", help="run each twice, compare the traces")
    chosen = parser.parse_args(arguments)
    if chosen.twice and chosen.seed is not None:
        parser.error("--seed prints one trace; --twice compares those of --seeds")
    if chosen.mutant:
        noticing = MUTANTS[chosen.mutant][1]().name
        if chosen.scenario not in (None, noticing):
            parser.error(
                f"the mutant {chosen.mutant!r} is noticed by --scenario {noticing}, "
                f"and not by {chosen.scenario}"
            )
    return chosen


def _replay(jobs: list[Job]) -> int:
    """Print the trace of each, and what was wrong with it."""
    wrong = 0
    for job in jobs:
        result = job.run(keep_trace=True)
        print(f"== {job.scenario}, seed {job.seed}, trace {result.trace_hash[:16]}")
        print("\n".join(result.lines))
        for violation in result.violations:
            print(f"VIOLATION {violation}")
        wrong += len(result.violations)
    return 1 if wrong else 0


def _survey(jobs: list[Job], workers: int) -> int:
    """Run all, print a table, and name the seeds that failed."""
    report, failed, started = Report(), list[tuple[Job, Result]](), time.monotonic()
    for done, (job, result) in enumerate(_results(jobs, workers), start=1):
        report.add(result.scenario, result.tally)
        if result.violations:
            failed.append((job, result))
        if done % 50 == 0 or done == len(jobs):
            seconds = time.monotonic() - started
            line = f"\r{done:,} of {len(jobs):,} runs, {len(failed)} failed, {seconds:.0f} s"
            print(line, end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print(report.table())
    for job, result in failed[:_SHOWN]:
        print(f"\n{job.scenario}, seed {job.seed}: {len(result.violations)} violations")
        for violation in result.violations[:_SHOWN]:
            print(f"  {violation}")
        print(f"  replay: {job.replay()}")
    if failed:
        seeds = ", ".join(f"{job.scenario} {job.seed}" for job, _ in failed)
        print(f"\nFAILED {len(failed)} of {len(jobs)} runs: {seeds}")
    return 1 if failed else 0


def _compare(jobs: list[Job], workers: int) -> int:
    """Run all twice: nothing but the seed may decide what happens, or no failure can be replayed."""
    hashes: dict[Job, set[str]] = {job: set() for job in jobs}
    for job, result in _results(jobs * 2, workers):
        hashes[job].add(result.trace_hash)
    differ = [job for job, seen in hashes.items() if len(seen) > 1]
    for name in dict.fromkeys(job.scenario for job in jobs):
        seeds = sum(job.scenario == name for job in jobs)
        same = seeds - sum(job.scenario == name for job in differ)
        print(f"{name}: {seeds:,} seeds x 2 runs: {same:,} identical trace hashes")
    for job in differ[:_SHOWN]:
        print(f"  differs: {job.replay()}")
    return 1 if differ else 0


def _crash(workers: int) -> int:
    """Explore every pair of crash points, and every point to sleep at, an operation at a time."""
    failed = 0
    tasks = [("pairs of crash points", name) for name in PAIRED]
    tasks += [("pairs of crash points of tables", name) for name in iceberg_crash.PAIRED]
    slept = list(iceberg_crash.operations(iceberg_crash.prepare()))
    tasks += [(kind, name) for kind in _SLEEPS for name in slept]
    tasks += [(halt, work) for halt in operations_crash.HALTS for work in operations_crash.WORK]
    with multiprocessing.Pool(max(1, workers), _spare_collector) as pool:
        for (kind, name), points, wrong in pool.imap(_explore, tasks):
            points_kind = f"points to {kind} at" if kind in operations_crash.HALTS else kind
            print(f"{name}: {points:,} {points_kind}: {len(wrong)} violations", flush=True)
            failed += len(wrong)
            for violation in wrong[:_SHOWN]:
                print(f"  {violation}")
    return 1 if failed else 0


def _explore(task: tuple[str, str]) -> tuple[tuple[str, str], int, list[str]]:
    kind, name = task
    if kind in operations_crash.HALTS:
        _, points, wrong = operations_crash.survey(name, kind)
    elif kind in _SLEEPS:
        _, points, wrong = iceberg_crash.survey_singles(name, _SLEEPS[kind])
    elif kind.endswith("tables"):
        _, points, wrong = iceberg_crash.survey_pairs(name)
    else:
        _, points, wrong = survey_pairs(name)
    return task, points, wrong


def _results(jobs: list[Job], workers: int) -> Iterator[tuple[Job, Result]]:
    """Each job with its result, in the order of the jobs, whichever worker is done first."""
    if workers <= 1:
        yield from ((job, job.run()) for job in jobs)
        return
    with multiprocessing.Pool(workers, _spare_collector) as pool:
        yield from zip(jobs, pool.imap(Job.run, jobs, chunksize=_CHUNK), strict=True)


def _spare_collector() -> None:
    """Have a worker look for garbage seldom, and never among what was imported."""
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER)


if __name__ == "__main__":
    sys.exit(main())
