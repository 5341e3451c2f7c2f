"""What a child tells, as log lines and metrics: one line for each cycle."""

from arco.api.http.telemetry import Log
from arco.api.metrics import Metrics
from arco.cli.tier2.keeper import Died
from arco.cli.tier2.wire import Cycled, Failed, Ready, Said
from arco.compactor.cycle import Cycle


class Reports:
    """Takes all that is said."""

    def __init__(self, log: Log, metrics: Metrics) -> None:
        self._log = log
        self._metrics = metrics

    def take(self, said: Said | Died) -> None:
        """Log it and count it."""
        match said:
            case Ready():
                self._log.info("Spark is up", ms=said.ms)
            case Cycled():
                self._cycled(said.cycle)
            case Failed():
                self._metrics.background_failed(said.what)
                detail = {"detail": said.detail} if said.detail else {}
                self._log.error(f"{said.what} failed", error=said.error, **detail)
            case Died():
                self._metrics.compaction.restarted()
                again_s = round(said.again_ms / 1000, 1)
                self._log.warning("Spark has ended, and is started again", after_s=again_s)

    def _cycled(self, cycle: Cycle) -> None:
        counts = cycle.counts
        self._metrics.compaction.record_cycle(
            cycle.domain,
            cycle.kind,
            events=counts.events,
            late=counts.late,
            quarantined=counts.quarantined,
            files=cycle.files,
            size_bytes=cycle.size_bytes,
            phases_ms=cycle.phases_ms,
            lag_ms=cycle.lag_ms,
        )
        phases = {f"{phase}_ms": ms for phase, ms in cycle.phases_ms.items()}
        self._log.info(
            "cycle",
            domain=cycle.domain,
            kind=cycle.kind,
            manifest=cycle.manifest,
            events=counts.events,
            late=counts.late,
            quarantined=counts.quarantined,
            files=cycle.files,
            bytes=cycle.size_bytes,
            **phases,
            lag_ms=cycle.lag_ms,
        )
