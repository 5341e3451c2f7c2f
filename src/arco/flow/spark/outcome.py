"""How an attempt ended, as it is told to the book of runs."""

from collections.abc import Iterable

import msgspec

from arco.core.errors import (
    ArcoError,
    AttemptFenced,
    Conflict,
    Denied,
    Invalid,
    NotFound,
    Unsupported,
)
from arco.flow.coordinator.messages import AttemptOutcome, CheckOutcome, OutputResult, TaskStatus
from arco.flow.spark.checks import ROWS, count_of
from arco.flow.spark.session import NoSpark
from arco.flow.spark.staging import Written
from arco.flow.worker.ports import LakeTable

_NO_SPARK_MS = 5_000  # a master or a JVM that does not start now may in some seconds

# Trying the same again comes to the same.
_FOR_GOOD = (AttemptFenced, Denied, Invalid, NotFound, Unsupported)


def may_retry(problem: BaseException) -> bool:
    """Whether another attempt may come to something else."""
    return isinstance(problem, Conflict) or not isinstance(problem, _FOR_GOOD)


def failed(
    text: str, problem: BaseException, outputs: Iterable[OutputResult] = ()
) -> AttemptOutcome:
    """An attempt that came to nothing; `outputs` are those that were published before it did."""
    return AttemptOutcome(
        status=TaskStatus.FAILED,
        error=text,
        may_retry=may_retry(problem),
        outputs=tuple(outputs),
    )


def cancelled(outputs: Iterable[OutputResult] = ()) -> AttemptOutcome:
    """An attempt that was told to stop; `outputs` are those that were published before it did."""
    return AttemptOutcome(
        status=TaskStatus.CANCELLED, error="it was stopped", outputs=tuple(outputs)
    )


def given_back(why: ArcoError, outputs: Iterable[OutputResult] = ()) -> AttemptOutcome:
    """An attempt that came to nothing through no fault of its own: it is made again, and not counted."""
    return AttemptOutcome(
        status=TaskStatus.CANCELLED,
        error=str(why),
        may_retry=True,
        pause_ms=_NO_SPARK_MS if isinstance(why, NoSpark) else 0,
        outputs=tuple(outputs),
    )


def blocking(checks: Iterable[CheckOutcome]) -> list[CheckOutcome]:
    """The checks that keep data from being published."""
    return [each for each in checks if not each.passed and each.severity == "error"]


def warned(checks: Iterable[CheckOutcome]) -> list[str]:
    """What checks that do not block have found, in words."""
    return [
        f"check {each.name} of {each.table}: {each.message or 'it does not hold'}"
        for each in checks
        if not each.passed and each.severity != "error"
    ]


def why_blocked(checks: Iterable[CheckOutcome], written: Iterable[Written]) -> str:
    """Which checks failed, and where the rows are that nobody sees."""
    lines = [
        f"check {each.name} of {each.table} failed: {each.message or 'it does not hold'}"
        for each in blocking(checks)
    ]
    staged = ", ".join(f"{each.target.table} as {each.kept_as}" for each in written)
    return "\n".join([*lines, f"nothing was published; staged: {staged}"])


def output_done(written: Written, table: LakeTable | None) -> OutputResult:
    """What became of one output."""
    target, staged, published = written.target, written.staged, written.published
    ids = {} if table is None else {c.name: c.column_id for c in table.columns if c.column_id}
    done = OutputResult(
        table=target.table,
        table_id=None if table is None else table.table_id,
        partition=target.partition,
        rows=count_of(written.metrics, ROWS),
        bytes=staged.bytes,
        files=staged.files,
    )
    if published is None:
        return done
    return msgspec.structs.replace(
        done,
        version=published.number,
        snapshot_id=published.snapshot_id,
        table_rows=published.table_rows,
        table_bytes=published.table_bytes,
        columns=written.measures.profile.columns(written.metrics, ids),
    )
