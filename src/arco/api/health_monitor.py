"""What health depends on, looked at no more often than every few seconds, whoever asks.

A look is one read of each domain's lag, one create of an object that is there already, which a store that
takes writes refuses for just that reason, and one question to a compactor in another process. Nothing is
listed, and nothing is left behind.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from arco.api.compaction import Compaction, RemoteCompaction
from arco.api.lag import DomainLag, Lags
from arco.core.errors import ArcoError, Unavailable
from arco.core.runtime import Runtime
from arco.core.tasks import Event
from arco.storage.probe import prove_put_if_absent
from arco.storage.store import Store

_GOOD_FOR_MS = 2_000
_WRITE_PROBE_GOOD_FOR_MS = 10_000


@dataclass(frozen=True)
class DiskSpace:
    """The file system that a local store is on."""

    free_bytes: int
    total_bytes: int


class CompactorHealth(Protocol):
    """A compactor in another process, which can be asked how it is."""

    async def health(self) -> RemoteCompaction:
        """How it is, or an error if it does not answer."""


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What one look has found.

    `domains` is None if the lags could not be read. `refusal` says why the store takes no writes.
    `compactor` is a compactor in another process, None if there is no such process.
    """

    domains: tuple[DomainLag, ...] | None
    refusal: ArcoError | None = None
    disk: DiskSpace | None = None
    compactor: RemoteCompaction | None = None


@dataclass(frozen=True, kw_only=True)
class HealthSources:
    """Where a process looks: `disk` only for a local store, `compactor` only if another process is one."""

    runtime: Runtime
    lags: Lags
    store: Store
    compaction: Compaction
    ready_ms: float
    compactor: CompactorHealth | None = None
    disk: Callable[[], DiskSpace] | None = None


class HealthMonitor:
    """Looks for all who ask at the same time, once."""

    def __init__(self, sources: HealthSources) -> None:
        self.sources = sources
        self._observed: Observation | None = None
        self._observed_ms = 0.0
        self._refusal: ArcoError | None = None
        self._probed_ms: float | None = None
        self._looking: Event | None = None

    async def observe(self) -> Observation:
        """What is so now, or was so a moment ago."""
        clock, tasks = self.sources.runtime.clock, self.sources.runtime.tasks
        while self._looking is not None:
            await self._looking.wait()
        if self._observed is None or clock.elapsed_ms() - self._observed_ms > _GOOD_FOR_MS:
            self._looking = tasks.event()
            try:
                self._observed = await self._look()
                self._observed_ms = clock.elapsed_ms()
            finally:
                self._looking.set()
                self._looking = None
        return self._observed

    async def _look(self) -> Observation:
        looks: tuple[Any, ...] = (self._domains(), self._probe_writes(), self._compactor())
        domains, _, compactor = await self.sources.runtime.tasks.gather(*looks)
        disk = None if self.sources.disk is None else self.sources.disk()
        return Observation(domains=domains, refusal=self._refusal, disk=disk, compactor=compactor)

    async def _domains(self) -> tuple[DomainLag, ...] | None:
        sources = self.sources
        try:
            return await sources.runtime.tasks.deadline(sources.ready_ms, sources.lags.look())
        except (ArcoError, TimeoutError):
            return None

    async def _probe_writes(self) -> None:
        """Find out whether the store takes writes; one that does is asked less often."""
        clock, tasks = self.sources.runtime.clock, self.sources.runtime.tasks
        is_known = (
            self._probed_ms is not None
            and self._refusal is None
            and clock.elapsed_ms() - self._probed_ms < _WRITE_PROBE_GOOD_FOR_MS
        )
        if not is_known:
            try:
                await tasks.deadline(self.sources.ready_ms, prove_put_if_absent(self.sources.store))
                self._refusal = None
            except TimeoutError:
                self._refusal = Unavailable("the store did not answer a write in time")
            except ArcoError as problem:
                self._refusal = problem
            self._probed_ms = clock.elapsed_ms()

    async def _compactor(self) -> RemoteCompaction | None:
        if self.sources.compactor is None:
            return None
        try:
            return await self.sources.compactor.health()
        except ArcoError:
            return RemoteCompaction(is_reachable=False)
