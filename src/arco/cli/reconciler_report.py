"""Reports what the reconciler does to the log and the metrics of a server."""

from arco.api.http.telemetry import Log
from arco.api.metrics import Metrics
from arco.cli.trouble import table_teller, teller
from arco.core.clock import Clock
from arco.iceberg.reconciler import Reconciled

_ROUND = "reconciliation"
_OF_A_TABLE = "reconciliation of a table"


class ReconcilerReport:
    """The observer of one reconciler. A failed round is logged each time, a failed table once."""

    def __init__(self, log: Log, metrics: Metrics, clock: Clock) -> None:
        self._metrics = metrics.reconciler
        self._clock = clock
        self._failed = teller(log, metrics)
        self._table_failed = table_teller(log, metrics, what=_OF_A_TABLE)

    def reconciled(self, done: Reconciled, *, full: bool) -> None:
        """A round has ended."""
        self._metrics.reconciled(done, full=full, at_ms=self._clock.now_ms())

    def round_failed(self, problem: Exception, *, full: bool) -> None:
        """A round was given up."""
        self._metrics.failed(full=full)
        self._failed(_ROUND, problem)

    def table_failed(self, table_id: str, problem: Exception) -> None:
        """One table was left to the next round."""
        self._metrics.table_failed()
        self._table_failed(table_id, problem)
