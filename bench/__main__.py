"""Run the benchmarks and print one table; exit 1 if a promise was missed."""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from arco.core.runtime import Runtime, system_runtime
from arco.core.tasks import run
from bench import (
    append,
    at_rest,
    catalog_ddl,
    catalog_reads,
    checks_in_write,
    compaction,
    event_load,
    flow_overhead,
    hot_chain,
    iceberg_costs,
    iceberg_paths,
    lineage,
    lineage_capture,
    lookups,
    native_creates,
    pacing,
    parallel_partitions,
    performance_page,
    planning,
    serving,
)
from bench.comparison import catalog_servers, compare
from bench.figure import Figure, print_table
from bench.performance_page import this_machine

SCRATCH = Path(__file__).parent.parent / ".cache" / "bench"

# Measured on Arco and its peers.
COMPARISONS = {
    "iceberg_reads": iceberg_paths.READS,
    "iceberg_creates": iceberg_paths.CREATES,
    "iceberg_commits": iceberg_paths.COMMITS,
    "iceberg_loads": iceberg_paths.LARGE_LOADS,
    "native_creates": native_creates.NATIVE_CREATES,
}
# The page on performance is written if all of these have run; it shows the others that did.
NEEDED_BY_PAGE = {"iceberg_reads", "iceberg_creates", "iceberg_commits", "native_creates"}


async def measure(wanted: list[str], runtime: Runtime) -> list[Figure]:
    """The figures of the benchmarks that were asked for, or of all."""
    benchmarks: dict[str, Callable[[], Awaitable[list[Figure]]]] = {
        "append": lambda: append.run(runtime, SCRATCH),
        "lookups": lambda: lookups.run(runtime, SCRATCH),
        "hot_chain": lambda: hot_chain.run(runtime),
        "catalog_ddl": lambda: catalog_ddl.run(runtime, SCRATCH),
        "catalog_reads": lambda: catalog_reads.run(runtime, SCRATCH),
        "serving": lambda: serving.run(runtime, SCRATCH),
        "iceberg_costs": lambda: iceberg_costs.run(runtime, SCRATCH),
        "lineage": lineage.run,
        "lineage_capture": lambda: lineage_capture.run(SCRATCH),
        "checks_in_write": lambda: checks_in_write.run(SCRATCH),
        "parallel_partitions": lambda: parallel_partitions.run(SCRATCH),
        "planning": planning.run,
        "at_rest": at_rest.run,
        "event_load": lambda: event_load.run(runtime, SCRATCH),
        "pacing": lambda: pacing.run(runtime),
        "compaction": lambda: compaction.run(runtime, SCRATCH),
        "flow_overhead": lambda: flow_overhead.run(runtime, SCRATCH),
    }
    names = [*COMPARISONS, *benchmarks]
    if unknown := sorted(set(wanted) - set(names)):
        sys.exit(f"no such benchmark: {', '.join(unknown)} (there are: {', '.join(names)})")
    compared = [name for name in COMPARISONS if not wanted or name in wanted]
    figures = await runtime.tasks.in_thread(lambda: measure_comparisons(compared))
    for name, benchmark in benchmarks.items():
        if not wanted or name in wanted:
            print(f"{name} ...", file=sys.stderr, flush=True)
            figures += await benchmark()
    return figures


def measure_comparisons(names: list[str]) -> list[Figure]:
    """The figures of these comparisons; writes the page on performance if it has all that it needs."""
    if not names:
        return []
    servers = catalog_servers()
    comparisons = []
    for name in names:
        print(f"{name} ...", file=sys.stderr, flush=True)
        comparisons += compare(COMPARISONS[name], servers, SCRATCH)
    if NEEDED_BY_PAGE.issubset(names):
        text = performance_page.page(names, comparisons, servers, this_machine(SCRATCH))
        performance_page.PAGE.write_text(text)
        print(f"{performance_page.PAGE} is written", file=sys.stderr, flush=True)
    return [figure for each in comparisons for figure in each.figures()]


if __name__ == "__main__":
    SCRATCH.mkdir(parents=True, exist_ok=True)
    figures = run(measure(sys.argv[1:], system_runtime()))
    sys.exit(0 if print_table("Arco benchmarks", figures) else 1)
