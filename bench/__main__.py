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
    iceberg_commits,
    iceberg_costs,
    iceberg_loads,
    lineage,
    lineage_capture,
    lookups,
    pacing,
    parallel_partitions,
    planning,
    serving,
)
from bench.figure import Figure, print_table

SCRATCH = Path(__file__).parent.parent / ".cache" / "bench"


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
        "iceberg_loads": lambda: iceberg_loads.run(runtime, SCRATCH),
        "iceberg_commits": lambda: iceberg_commits.run(runtime, SCRATCH),
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
    unknown = sorted(set(wanted) - set(benchmarks))
    if unknown:
        sys.exit(f"no such benchmark: {', '.join(unknown)} (there are: {', '.join(benchmarks)})")
    figures = []
    for name, benchmark in benchmarks.items():
        if not wanted or name in wanted:
            print(f"{name} ...", file=sys.stderr, flush=True)
            figures += await benchmark()
    return figures


if __name__ == "__main__":
    SCRATCH.mkdir(parents=True, exist_ok=True)
    figures = run(measure(sys.argv[1:], system_runtime()))
    sys.exit(0 if print_table("Arco benchmarks", figures) else 1)
