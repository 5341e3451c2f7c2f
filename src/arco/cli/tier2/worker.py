"""`arco tier2-worker`: the child that compacts Tier 2 for the process that has started it.

It is rung for on stdin and tells on stdout what it has done, both in lines of JSON. When its stdin ends
it ends too, whether it was closed or its parent was killed. It needs the compactor's role and no other.
"""

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, BinaryIO

from cyclopts import Parameter

from arco.cli.keep import Keep
from arco.cli.pacing import CompactEvery
from arco.cli.place import Place
from arco.cli.spark import Spark, demand_installed

if TYPE_CHECKING:
    from arco.cli.tier2.on_spark import OnSpark
    from arco.cli.tier2.wire import Said
    from arco.compactor.pace import Pace
    from arco.core.runtime import Runtime

_FAREWELL_MS = 3_500  # for all there is to close


def worker(
    *,
    place: Place | None = None,
    spark: Spark | None = None,
    keep: Keep | None = None,
    pacing: CompactEvery | None = None,
    nice: Annotated[int, Parameter(metavar="N")] = 0,
) -> None:
    """Compact events for the process that has started this one.

    Parameters
    ----------
    place
        Where the metadata are.
    spark
        Where the work is done.
    keep
        How long rows are kept.
    pacing
        How often few events are compacted.
    nice
        How far to stand back behind other processes.
    """
    os.nice(nice)  # before there are threads and processes, which all inherit it
    demand_installed()
    rung, told = sys.stdin.buffer, _own_stdout()
    from arco.core.runtime import system_runtime
    from arco.core.tasks import run

    place, spark, keep = place or Place(), spark or Spark(), keep or Keep()
    keep.spans()
    pace = (pacing or CompactEvery()).pace()
    code = run(_Worker(place, spark, keep, system_runtime(), told, pace=pace).work(rung))
    # Threads may still wait for a JVM that is gone; nobody is to wait for them.
    os._exit(code)


def _own_stdout() -> BinaryIO:
    """Stdout for our lines alone: whatever the JVM or a library prints goes to stderr from now on."""
    own = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return own


class _Worker:
    """Compacts and listens, until the one fails or the other hears that it is over."""

    def __init__(
        self,
        place: Place,
        spark: Spark,
        keep: Keep,
        runtime: "Runtime",
        told: BinaryIO,
        *,
        pace: "Pace",
    ) -> None:
        self._pace = pace
        self._place = place
        self._spark = spark
        self._keep = keep
        self._runtime = runtime
        self._told = told
        self._opened: OnSpark | None = None
        self._over = runtime.tasks.event()
        self._code = 0

    async def work(self, rung: BinaryIO) -> int:
        """The exit code, once it is over."""
        self._runtime.tasks.spawn(self._listen(rung))
        compacting = self._runtime.tasks.spawn(self._compact())
        await self._over.wait()
        compacting.cancel()
        with suppress(BaseException):  # nothing that comes of it now changes the outcome
            await self._runtime.tasks.deadline(_FAREWELL_MS, compacting.wait())
        return self._code

    async def _listen(self, rung: BinaryIO) -> None:
        """Pass rings on until there is nobody left who could ring."""
        try:
            await self._hear(rung)
        finally:
            self._over.set()

    async def _hear(self, rung: BinaryIO) -> None:
        from arco.cli.tier2.wire import read_ring

        while (ring := await self._runtime.tasks.in_thread(lambda: read_ring(rung))) is not None:
            if self._opened is not None:  # else it is going to look at everything
                self._opened.tier2.ring(ring.domain, ring.stream, ring.handed())

    async def _compact(self) -> None:
        from arco.cli.tier2.on_spark import on_spark, open_compactor_store
        from arco.cli.tier2.wire import Cycled, Ready

        began_ms = self._runtime.clock.elapsed_ms()
        try:
            store = await open_compactor_store(self._place, self._runtime)
            async with on_spark(
                self._place,
                self._spark,
                self._keep,
                store,
                pace=self._pace,
                tell=self._failed,
                report=lambda cycle: self._say(Cycled(cycle)),
            ) as opened:
                self._opened = opened
                self._say(Ready(round(self._runtime.clock.elapsed_ms() - began_ms)))
                await opened.tier2.run()
        except Exception as problem:
            self._failed("Spark", problem)
            self._end(1)

    def _failed(self, what: str, problem: Exception) -> None:
        from arco.cli.tier2.wire import Failed
        from arco.cli.trouble import about

        self._say(Failed(what, **about(problem), domains=self._failing()))
        if self._opened is not None and self._opened.engine.is_lost:
            self._end(1)  # what is left of Spark is of no use

    def _failing(self) -> tuple[str, ...]:
        """The domains whose last cycle has failed."""
        domains = {} if self._opened is None else self._opened.tier2.domains
        return tuple(name for name, each in domains.items() if each.cycles.failures)

    def _say(self, said: "Said") -> None:
        from arco.cli.tier2.wire import encode

        with suppress(OSError):  # nobody listens any more, and stdin is about to end
            self._told.write(encode(said))
            self._told.flush()

    def _end(self, code: int) -> None:
        self._code = code
        self._over.set()
