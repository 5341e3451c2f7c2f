"""Judging what was staged: every check of an output, those that were counted and those that look again."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from arco.core.clock import Clock
from arco.flow.define import CheckDef, Context, Project
from arco.flow.run.wire import CheckOutcome
from arco.flow.spark.checks import ROWS, Finding, count_of, other_checks, outcome_of
from arco.flow.spark.formats import Formats
from arco.flow.spark.inputs import Inputs
from arco.flow.spark.running import Running
from arco.flow.spark.staged_checks import StagedRows
from arco.flow.spark.staging import Written
from arco.flow.spark.target import Room
from arco.flow.work.port import Lake


@dataclass
class Judge:
    """Judges all outputs of one attempt. What checks read is not part of the asset's lineage.

    So they look in a session of their own, which is opened if there is anything to look at.
    """

    project: Project
    running: Running
    lake: Lake
    clock: Clock
    new_session: Callable[[], SparkSession]
    _session: SparkSession | None = field(default=None, init=False)

    def outcomes(self, written: Written, table_id: str | None) -> list[CheckOutcome]:
        """What each check of an output found."""
        found = self._found(written)
        return [outcome_of(check, finding, table_id) for check, finding in found]

    def _found(self, written: Written) -> Iterator[tuple[CheckDef, Finding]]:
        yield from written.measures.checks.findings(written.metrics, self.clock.now_ms())
        if others := other_checks(written.checks):
            yield from self._staged(written).findings(others)

    def _staged(self, written: Written) -> StagedRows:
        if self._session is None:
            self._session = self.running.session(self.new_session())
        session, target = self._session, written.target
        room = Room(session, self.lake)
        inputs = Inputs(self.project, self.running.task, room, Formats(room))
        context: Context = self.running.context(target.values)
        return StagedRows(
            session=session,
            table=target.table,
            frame=written.staged.frame(session),
            rows=count_of(written.metrics, ROWS),
            rows_before=lambda: written.tables.rows_before(target),
            read=inputs.whole,
            context=context,
        )
