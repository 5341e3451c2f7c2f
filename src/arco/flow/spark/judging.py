"""Judging what was staged: every check of an output, those that were counted and those that look again."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial

from pyspark.sql import SparkSession

from arco.core.clock import Clock
from arco.flow.define import CheckDef, Context, Project
from arco.flow.define.check_rules import Freshness, RowCount
from arco.flow.run.wire import CheckOutcome
from arco.flow.spark.checks import (
    ROWS,
    Finding,
    columns_of_rule,
    count_of,
    failing_condition,
    other_checks,
    outcome_of,
)
from arco.flow.spark.failing_rows import MAX_ROWS, FailingRows, masked_positions, pii_columns
from arco.flow.spark.formats import Formats
from arco.flow.spark.inputs import Inputs
from arco.flow.spark.running import Running
from arco.flow.spark.staged_checks import StagedRows
from arco.flow.spark.staging import Written
from arco.flow.spark.target import Room
from arco.flow.work.port import Lake, LakeTable

_MAX_LOGGED_BYTES = 65_536  # of failing rows, in all checks of an attempt


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
    _logged_bytes: int = field(default=0, init=False)

    def outcomes(self, written: Written, table: LakeTable | None) -> list[CheckOutcome]:
        """What each check of an output found; of those that failed, rows go to the log of the attempt."""
        staged = cache(lambda: self._staged(written, table))
        outcomes: list[CheckOutcome] = []
        for check, finding in self._found(written, staged):
            outcomes.append(outcome_of(check, finding, None if table is None else table.table_id))
            if not finding.passed and not isinstance(check.rule, RowCount | Freshness):
                failing = partial(self._failing_rows, check, written, table, staged)
                self._log_failing_rows(check, finding, failing)
        return outcomes

    def _found(
        self, written: Written, staged: Callable[[], StagedRows]
    ) -> Iterator[tuple[CheckDef, Finding]]:
        yield from written.measures.checks.findings(written.metrics, self.clock.now_ms())
        if others := other_checks(written.checks):
            yield from staged().findings(others)

    def _log_failing_rows(
        self, check: CheckDef, finding: Finding, failing: Callable[[], FailingRows | None]
    ) -> None:
        """Log rows that fail a check. If they cannot be read, the outcome of the check is the same."""
        title = f"check {check.name} of {check.table}"
        if self._logged_bytes > _MAX_LOGGED_BYTES:
            self.running.log(
                f"{title}: failing rows are left out, as other checks have logged many"
            )
            return
        try:
            rows = failing()
            lines = [] if rows is None else rows.lines()
        except Exception as problem:  # its message may hold values of any column
            self.running.go_on()  # rows cannot be read once the attempt is stopped: that is no error
            name = type(problem).__name__
            self.running.log(f"{title}: its failing rows could not be read ({name})")
            return
        if lines:
            head = f"{title}: {finding.message}. Failing rows, {MAX_ROWS} at most:"
            text = "\n".join([head, *lines])
            self._logged_bytes += len(text.encode(errors="backslashreplace"))
            self.running.log(text)

    def _failing_rows(
        self,
        check: CheckDef,
        written: Written,
        table: LakeTable | None,
        staged: Callable[[], StagedRows],
    ) -> FailingRows | None:
        condition = failing_condition(check.rule)
        if condition is None:
            return staged().failing_rows(check)
        frame = written.staged.rows(self._own_session()).where(condition)
        masked = masked_positions(frame, pii_columns(table))
        return FailingRows(frame, masked, columns_of_rule(check.rule))

    def _own_session(self) -> SparkSession:
        if self._session is None:
            self._session = self.running.session(self.new_session())
        return self._session

    def _staged(self, written: Written, table: LakeTable | None) -> StagedRows:
        session, target = self._own_session(), written.target
        room = Room(session, self.lake, found={target.table: table})
        inputs = Inputs(self.project, self.running.task, room, Formats(room))
        context: Context = self.running.context(target.values)
        return StagedRows(
            session=session,
            table=target.table,
            frame=written.staged.frame(session),
            rows=count_of(written.metrics, ROWS),
            rows_before=lambda: written.tables.rows_before(target),
            read=inputs.whole,
            pii_columns=lambda name: pii_columns(room.find(name)),
            context=context,
        )
