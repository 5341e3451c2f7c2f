"""`arco compactor --once` and `--rebuild`: all work there is, in this process, then an end."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from arco.cli.keep import Keep
from arco.cli.place import Place
from arco.cli.spark import Spark, demand_installed
from arco.core.errors import Invalid

if TYPE_CHECKING:
    from arco.compactor.cycle import Cycle
    from arco.compactor.rebuild import Rebuilt
    from arco.core.runtime import Runtime

Say = Callable[[str], None]


def compact_here(
    place: Place, spark: Spark, keep: Keep, *, once: bool, rebuild: bool, domain: str | None
) -> None:
    """Do what the flags say, and tell on stdout what was done."""
    from arco.core.runtime import system_runtime
    from arco.core.tasks import run

    domains = _domains(domain)
    if once == rebuild:
        wrong = "exclude each other" if once else "are what --domain is for"
        raise Invalid(f"--once and --rebuild {wrong}: give one of them")
    if spark.no_spark:
        raise Invalid("--no-spark leaves nothing to do: leave it out, or serve without --once")
    demand_installed()
    spark.check()
    place.check_there()
    work = (_once if once else _rebuild)(place, spark, keep, domains, system_runtime())
    run(work)


async def _once(
    place: Place, spark: Spark, keep: Keep, domains: tuple[str, ...], runtime: "Runtime"
) -> None:
    from arco.cli.tier2.on_spark import on_spark, open_compactor_store
    from arco.compactor.behind import is_behind

    store = await open_compactor_store(place, runtime)
    late = [each for each in domains if await is_behind(store, each, keep.spans())]
    if not late:  # then it is not worth a start of Spark
        print("There is nothing to compact.")
        return
    done: list[Cycle] = []

    def report(cycle: "Cycle") -> None:
        done.append(cycle)
        say(f"{cycle.domain}: {_events(done):,} events so far")

    with progress() as say:
        say("starting Spark")
        opening = on_spark(place, spark, keep, store, domains=late, report=report, quiet=True)
        async with opening as opened:
            say("compacting")
            await opened.tier2.once()
    _tell(done)


async def _rebuild(
    place: Place, spark: Spark, keep: Keep, domains: tuple[str, ...], runtime: "Runtime"
) -> None:
    from arco.catalog.manifest import manifests_of
    from arco.cli.tier2.on_spark import on_spark, open_compactor_store
    from arco.compactor.rebuild import rebuild

    store = await open_compactor_store(place, runtime)
    there = [each for each in domains if (await manifests_of(store, each).head()).number >= 0]
    if not there:
        print("Nothing was compacted yet, so there is nothing to rebuild.")
        return
    with progress() as say:
        say("starting Spark")
        async with on_spark(place, spark, keep, store, domains=there, quiet=True) as opened:
            for domain in there:
                say(f"rebuilding {domain}")
                _tell_rebuilt(await rebuild(store, domain, opened.engine))


def _domains(domain: str | None) -> tuple[str, ...]:
    from arco.fold.tier2 import TIER2

    if domain is None:
        return tuple(TIER2)
    if domain not in TIER2:
        raise Invalid(f"--domain takes {', '.join(TIER2)}, not {domain[:80]!r}")
    return (domain,)


@contextmanager
def progress() -> Iterator[Say]:
    """A function that is told what is being done, for whoever watches a terminal."""
    if not sys.stderr.isatty():
        yield lambda _text: None
        return
    from rich.console import Console

    # Its own way to the terminal: for a while stderr leads nowhere.
    with (
        os.fdopen(os.dup(sys.stderr.fileno()), "w") as terminal,
        Console(file=terminal).status("") as status,
    ):
        yield status.update


def _events(cycles: "list[Cycle]") -> int:
    return sum(cycle.counts.events for cycle in cycles)


def _tell(cycles: "list[Cycle]") -> None:
    late = sum(cycle.counts.late for cycle in cycles)
    quarantined = sum(cycle.counts.quarantined for cycle in cycles)
    files = sum(cycle.files for cycle in cycles)
    size = sum(cycle.size_bytes for cycle in cycles)
    print(
        f"Compacted {_events(cycles):,} events in {len(cycles)} commits: {files} files, {size:,} bytes; "
        f"{late:,} events were late, {quarantined:,} are in quarantine."
    )


def _tell_rebuilt(rebuilt: "Rebuilt") -> None:
    start = "nothing" if rebuilt.start < 0 else f"manifest {rebuilt.start}"
    print(
        f"Rebuilt {rebuilt.domain} from {start} as manifest {rebuilt.manifest}: "
        f"{rebuilt.counts.events:,} events, {rebuilt.files} files, {rebuilt.size_bytes:,} bytes."
    )
