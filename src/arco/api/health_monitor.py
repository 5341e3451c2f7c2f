"""What health depends on: lag, status of compaction, writes to the store. Observed every few seconds.

An observation reads the lag of each domain, tries to create an object that exists, which a store that
accepts writes refuses for just that reason, and asks a compactor in another process for its health. It
lists nothing, and writes nothing.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

from msgspec import UNSET, UnsetType

from arco.api.fold_times import FoldTimes
from arco.api.http.reply import Reply
from arco.api.http.request import Call, QueryParams
from arco.api.responses import ResponseModel
from arco.catalog.reader import SnapshotReader
from arco.core import json
from arco.core.clock import Clock, utc
from arco.core.errors import ArcoError, Unavailable
from arco.core.ids import ulid_ms
from arco.core.runtime import Runtime
from arco.core.tasks import AsyncEvent
from arco.ledger.lag import measure_lag
from arco.ledger.stream import Watermark
from arco.storage.open import check_put_if_absent
from arco.storage.store import Store

_OBSERVE_EVERY_MS = 2_000
_PROBE_EVERY_MS = 10_000

# running: Spark is up. waiting: there is nothing to do, so Spark is not up. starting: Spark is starting.
# restarting: Spark has died. off: nothing compacts. elsewhere: another process compacts, if any.
CompactionState = Literal["running", "waiting", "starting", "restarting", "off", "elsewhere"]


@dataclass(frozen=True)
class CompactionFailure:
    """The last failure: the type of the error, and its message unless it must not be logged."""

    error: str
    detail: str = ""


class CompactionStatus(Protocol):
    """The status of compaction as this process knows it."""

    @property
    def state(self) -> CompactionState:
        """The present state."""

    @property
    def reason(self) -> str | None:
        """Why, in a sentence for users; None if there is nothing to explain."""

    @property
    def failures(self) -> Mapping[str, CompactionFailure]:
        """The last failure of each domain that has not published anything since."""


@dataclass(frozen=True)
class FixedCompactionStatus:
    """A state that never changes."""

    state: CompactionState
    reason: str | None = None
    failures: Mapping[str, CompactionFailure] = field(default_factory=dict)


@dataclass(frozen=True)
class RemoteReason:
    """Why a compactor in another process calls itself degraded."""

    code: str
    message: str
    domain: str | None = None


@dataclass(frozen=True)
class RemoteCompaction:
    """The health that a compactor in another process reports; its state is None if it reports none."""

    state: CompactionState | None = None
    reasons: tuple[RemoteReason, ...] = ()
    is_reachable: bool = True


ELSEWHERE: CompactionStatus = FixedCompactionStatus("elsewhere")


class DomainLag(ResponseModel, frozen=True, kw_only=True):
    """One domain. `lag_ms` is the age of its oldest event that is in no manifest; 0 if all of them are.

    `manifest` is the number that was published last, -1 before the first, and `published_at` its time.
    `waiting_events` is an estimate: the first and the last segment of each stream are counted.
    """

    domain: str
    manifest: int
    lag_ms: int
    waiting_segments: int
    waiting_events: int = 0
    oldest_received_at: datetime | UnsetType = UNSET
    published_at: datetime | UnsetType = UNSET


class Lag(ResponseModel, frozen=True, kw_only=True):
    """The lag of every domain of events."""

    items: tuple[DomainLag, ...]


class LagReader:
    """Reads how far each domain of events is behind."""

    def __init__(self, runtime: Runtime, domains: Mapping[str, SnapshotReader]) -> None:
        self._runtime = runtime
        self._domains = domains

    async def get(self, _call: Call[QueryParams, None]) -> Reply:
        """How long the oldest event of each domain has waited to become visible."""
        return Reply(200, json.encode(Lag(items=await self.read())))

    async def read(self) -> tuple[DomainLag, ...]:
        """The lag of all domains."""
        tasks = self._runtime.tasks
        readers = self._domains.items()
        return tuple(await tasks.gather(*(self._read(name, each) for name, each in readers)))

    async def _read(self, domain: str, reader: SnapshotReader) -> DomainLag:
        snapshot = await reader.head()
        published = snapshot.manifest
        mark = Watermark() if published is None else published.watermark
        waiting = await measure_lag(reader.store, domain, mark)
        oldest = waiting.oldest_received
        return DomainLag(
            domain=domain,
            manifest=snapshot.number,
            lag_ms=0 if oldest is None else age_ms(oldest, self._runtime.clock),
            waiting_segments=waiting.segments,
            waiting_events=waiting.events,
            oldest_received_at=UNSET if oldest is None else oldest,
            published_at=UNSET if published is None else utc(ulid_ms(published.commit_ulid)),
        )


def age_ms(moment: datetime, clock: Clock) -> int:
    """How long ago `moment` was, at least 1."""
    return max(1, round((utc(clock.now_ms()) - moment).total_seconds() * 1000))


@dataclass(frozen=True)
class DiskSpace:
    """The file system that a local store is on."""

    free_bytes: int
    total_bytes: int


class CompactorHealth(Protocol):
    """A compactor in another process."""

    async def health(self) -> RemoteCompaction:
        """Its health, or an error if it does not answer."""


@dataclass(frozen=True, kw_only=True)
class HealthObservation:
    """What was observed.

    `domains` is None if the lags could not be read. `refusal` is why the store accepts no writes.
    `compactor` is None if no other process compacts. `last_folds` is when each domain was last folded.
    """

    domains: tuple[DomainLag, ...] | None
    last_folds: Mapping[str, datetime] = field(default_factory=dict)
    refusal: ArcoError | None = None
    disk: DiskSpace | None = None
    compactor: RemoteCompaction | None = None


@dataclass(frozen=True, kw_only=True)
class HealthSources:
    """What a process observes: `disk` only of a local store, `compactor` only in another process."""

    runtime: Runtime
    lags: LagReader
    folds: FoldTimes
    store: Store
    compaction: CompactionStatus
    ready_ms: float
    compactor: CompactorHealth | None = None
    disk: Callable[[], DiskSpace] | None = None


class HealthMonitor:
    """Observes once for concurrent requests."""

    def __init__(self, sources: HealthSources) -> None:
        self.sources = sources
        self._observed: HealthObservation | None = None
        self._observed_ms = 0.0
        self._refusal: ArcoError | None = None
        self._probed_ms: float | None = None
        self._observing: AsyncEvent | None = None

    async def observe(self) -> HealthObservation:
        """What was observed at most a few seconds ago."""
        clock, tasks = self.sources.runtime.clock, self.sources.runtime.tasks
        while self._observing is not None:
            await self._observing.wait()
        if self._observed is None or clock.elapsed_ms() - self._observed_ms > _OBSERVE_EVERY_MS:
            self._observing = tasks.event()
            try:
                self._observed = await self._observe()
                self._observed_ms = clock.elapsed_ms()
            finally:
                self._observing.set()
                self._observing = None
        return self._observed

    async def _observe(self) -> HealthObservation:
        reads: tuple[Any, ...] = (self._domains(), self._probe_writes(), self._compactor())
        domains, _, compactor = await self.sources.runtime.tasks.gather(*reads)
        disk = None if self.sources.disk is None else self.sources.disk()
        await self._update_folds()
        return HealthObservation(
            domains=domains,
            last_folds=self.sources.folds.last_folds,
            refusal=self._refusal,
            disk=disk,
            compactor=compactor,
        )

    async def _domains(self) -> tuple[DomainLag, ...] | None:
        sources = self.sources
        try:
            return await sources.runtime.tasks.deadline(sources.ready_ms, sources.lags.read())
        except (ArcoError, TimeoutError):
            return None

    async def _update_folds(self) -> None:
        sources = self.sources
        with suppress(ArcoError, TimeoutError):  # the next observation goes on where this one ended
            await sources.runtime.tasks.deadline(sources.ready_ms, sources.folds.update())

    async def _probe_writes(self) -> None:
        """Find out whether the store accepts writes; probe one that does less often."""
        clock, tasks = self.sources.runtime.clock, self.sources.runtime.tasks
        is_recent = (
            self._probed_ms is not None
            and self._refusal is None
            and clock.elapsed_ms() - self._probed_ms < _PROBE_EVERY_MS
        )
        if not is_recent:
            try:
                await tasks.deadline(self.sources.ready_ms, check_put_if_absent(self.sources.store))
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
