"""What an error of an attempt means: whose fault it is, what the user reads, and the outcome it leads to.

If Arco's API or Spark could not be reached, the attempt is requeued and uses up no retry. Only errors of
Iceberg's client for the catalog count as that: a database of the user that cannot be reached is an error of
the user's code. A full store counts as a failure, so that an operator gets to know of it.
"""

import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from pyspark.errors import AnalysisException, PySparkException

from arco.core.errors import (
    ArcoError,
    AttemptFenced,
    Conflict,
    Denied,
    Invalid,
    NotFound,
    StoreFull,
    Unavailable,
    Unknown,
    Unsupported,
)
from arco.flow.coordinator.messages import AttemptOutcome, OutputResult, TaskStatus
from arco.flow.define.declarations import SourceLine, relative_file
from arco.flow.spark.jvm import JvmError, java_errors, java_message
from arco.flow.spark.session import NoSpark
from arco.flow.table_name import base_name, qualified_name
from arco.flow.worker.outcome import escape_text
from arco.flow.worker.ports import CatalogTable

_MAX_CHARS = 8_000
_MAX_FRAMES = 20
_WORKER_TRACE = "Traceback (most recent call last)"

_TABLE_NOT_FOUND = "TABLE_OR_VIEW_NOT_FOUND"
_OUT_OF_MEMORY = (
    "OutOfMemoryError",  # of the JVM, and Spark's own
    "UNABLE_TO_ACQUIRE_MEMORY",
    "GC overhead limit exceeded",
    "Python worker exited unexpectedly",  # as the system kills it
    "exceeding memory limits",  # of a container
    "OOMKilled",
    "exit code 137",
    "exit status: 137",
)
_MORE_MEMORY = "--memory 4g (Spark has 2g by default), or work on fewer tasks at once"
LOST_SPARK_HINT = f"If it was killed for want of memory, give it more: {_MORE_MEMORY}."

_NO_ANSWER = "org.apache.iceberg.exceptions.RESTException"
_NOT_NOW = (
    "org.apache.iceberg.exceptions.CommitStateUnknownException",
    "org.apache.iceberg.exceptions.ServiceUnavailableException",
)

_NO_SPARK_PAUSE_MS = 5_000  # a master or a JVM that does not start now may start in some seconds
# Another attempt would fail in the same way.
_PERMANENT = (AttemptFenced, Denied, Invalid, NotFound, Unsupported)


def infrastructure_error(problem: BaseException) -> ArcoError | None:
    """The error to report if Arco or Spark could not be reached; None for any other error."""
    if isinstance(problem, Unavailable | Unknown):
        return None if isinstance(problem, StoreFull) else problem
    errors = java_errors(problem)
    # With a cause it is an error of the connection, without one an answer of the catalog.
    has_no_answer = _NO_ANSWER in errors[:-1]
    if not has_no_answer and not any(each in errors for each in _NOT_NOW):
        return None
    error = Unavailable(f"Arco could not be reached while the task ran: {java_message(problem)}")
    error.__cause__ = problem
    return error


def failed_outcome(
    text: str, problem: BaseException, outputs: Iterable[OutputResult] = ()
) -> AttemptOutcome:
    """A failed attempt; `outputs` are those that were published before."""
    return AttemptOutcome(
        status=TaskStatus.FAILED,
        error=text,
        may_retry=isinstance(problem, Conflict) or not isinstance(problem, _PERMANENT),
        outputs=tuple(outputs),
    )


def cancelled_outcome(outputs: Iterable[OutputResult] = ()) -> AttemptOutcome:
    """A stopped attempt; `outputs` are those that were published before."""
    return AttemptOutcome(
        status=TaskStatus.CANCELLED, error="it was stopped", outputs=tuple(outputs)
    )


def requeued_outcome(reason: ArcoError, outputs: Iterable[OutputResult] = ()) -> AttemptOutcome:
    """An attempt that failed through no fault of its code: the task runs again, and no retry is used up."""
    return AttemptOutcome(
        status=TaskStatus.CANCELLED,
        error=str(reason),
        may_retry=True,
        pause_ms=_NO_SPARK_PAUSE_MS if isinstance(reason, NoSpark) else 0,
        outputs=tuple(outputs),
    )


def memory_hint(problem: BaseException) -> str | None:
    """What to do about an error that comes from too little memory; None for any other error."""
    cause: BaseException | None = problem
    while cause is not None:
        if isinstance(cause, MemoryError) or any(each in str(cause) for each in _OUT_OF_MEMORY):
            return f"This looks like too little memory: give Spark more with {_MORE_MEMORY}."
        cause = cause.__cause__
    return None


def table_hint(problem: BaseException, find: Callable[[str], CatalogTable | None]) -> str | None:
    """How to read a Parquet table, if the code asked Spark for one by its name."""
    if not isinstance(problem, AnalysisException) or problem.getCondition() != _TABLE_NOT_FOUND:
        return None
    with suppress(Exception):  # the error is reported with or without a hint
        relation = (problem.getMessageParameters() or {})["relationName"]
        name = qualified_name(relation.replace("`", '"'))
        table = find(name)
        if table is not None and table.format.lower() == "parquet":
            return (
                f"{name} exists, but Spark does not find tables of plain Parquet files by name: give an "
                f"asset a parameter {base_name(name)}=table({name!r}), and a task reads=[{name!r}]"
            )
    return None


def describe_error(problem: BaseException, folder: Path, where: SourceLine | None = None) -> str:
    """An error for the author of the code: their own lines, and none of Arco's.

    `folder` is the project's, `where` the definition of the asset or task.
    """
    lines = [_message(problem)]
    if not isinstance(problem, ArcoError):  # Arco's errors name the place themselves
        frames = [
            frame
            for frame in traceback.extract_tb(problem.__traceback__)
            if _is_user_file(frame.filename, folder)
        ]
        if frames:
            lines.append("in your code, the innermost line last:")
        for frame in frames[-_MAX_FRAMES:]:
            file = relative_file(frame.filename, folder)
            lines.append(f"  {file}:{frame.lineno} in {frame.name}")
            if frame.line:
                lines.append(f"    {frame.line}")
        if not frames and where is not None:
            lines.append(f"in {where}")
        if problem.__cause__ is not None and frames:
            lines.append(f"caused by {_message(problem.__cause__)}")
    return escape_text("\n".join(lines)[:_MAX_CHARS])


def _is_user_file(file: str, folder: Path) -> bool:
    path = Path(file)
    return path.is_relative_to(folder) and "site-packages" not in path.parts


def _message(problem: BaseException) -> str:
    if isinstance(problem, ArcoError):
        return str(problem)
    if isinstance(problem, SystemExit):
        return f"the code called sys.exit({'' if problem.code is None else repr(problem.code)})"
    if isinstance(problem, PySparkException | JvmError):
        return f"{type(problem).__name__}: {_spark_message(problem)}"
    return "".join(traceback.format_exception_only(problem)).strip()


def _spark_message(problem: BaseException) -> str:
    """Spark's message without its plan and the trace of the JVM, but with that of a Python worker."""
    text = str(problem)
    at = text.find(_WORKER_TRACE)
    if at >= 0:
        return _worker_trace(text[at:])
    return java_message(problem)


def _worker_trace(text: str) -> str:
    """The error that a Python worker of Spark raised, with its trace."""
    lines: list[str] = []
    for line in text.splitlines():
        is_java = line.lstrip().startswith(("at org.", "at java.", "at scala."))
        if is_java or line.startswith("\tat"):
            break
        lines.append(line)
    user_lines = [
        line for at, line in enumerate(lines) if line.strip() and not _is_of_pyspark(lines, at)
    ]
    # The error comes first: some views show the first line only.
    is_trace = [line.startswith((" ", _WORKER_TRACE)) for line in user_lines]
    end = max(at for at, each in enumerate(is_trace) if each) + 1
    return "\n".join((*user_lines[end:], *user_lines[:end])).strip()


def _is_of_pyspark(lines: list[str], at: int) -> bool:
    """Whether a line of a trace, or the one that it belongs to, is of pyspark itself."""
    line = lines[at]
    if line.lstrip().startswith('File "'):
        return "pyspark" in line
    if at and lines[at - 1].lstrip().startswith('File "') and line.startswith("    "):
        return "pyspark" in lines[at - 1]
    return set(line.strip()) <= {"^", "~"}
