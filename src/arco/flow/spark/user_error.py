"""Errors as the person sees them who wrote the code: their own lines first, and nothing of ours."""

import traceback
from pathlib import Path

from pyspark.errors import PySparkException

from arco.core.errors import ArcoError
from arco.flow.define.declarations import SourceLine, relative_file
from arco.flow.spark.jvm import JvmError, java_message
from arco.flow.work.plain import plain_text

_LONGEST = 8_000
_MOST_FRAMES = 20
_WORKER_TRACE = "Traceback (most recent call last)"


def describe(problem: BaseException, folder: Path, where: SourceLine | None = None) -> str:
    """What went wrong, in a few lines; `folder` is the project's, `where` what was carried out."""
    lines = [_said(problem)]
    frames = [
        frame
        for frame in traceback.extract_tb(problem.__traceback__)
        if _is_theirs(frame.filename, folder)
    ]
    if frames and not _is_ours(problem):
        lines.append("in your code, the innermost line last:")
    for frame in () if _is_ours(problem) else frames[-_MOST_FRAMES:]:
        lines.append(f"  {relative_file(frame.filename, folder)}:{frame.lineno} in {frame.name}")
        if frame.line:
            lines.append(f"    {frame.line}")
    if not frames and not _is_ours(problem) and where is not None:
        lines.append(f"in {where}")
    if problem.__cause__ is not None and frames and not _is_ours(problem):
        lines.append(f"caused by {_said(problem.__cause__)}")
    return plain_text("\n".join(lines)[:_LONGEST])


def _is_ours(problem: BaseException) -> bool:
    """Our own errors say where something is wrong by themselves."""
    return isinstance(problem, ArcoError)


def _is_theirs(file: str, folder: Path) -> bool:
    path = Path(file)
    return path.is_relative_to(folder) and "site-packages" not in path.parts


def _said(problem: BaseException) -> str:
    if _is_ours(problem):
        return str(problem)
    if isinstance(problem, SystemExit):
        return f"the code called sys.exit({'' if problem.code is None else repr(problem.code)})"
    if isinstance(problem, PySparkException | JvmError):
        return f"{type(problem).__name__}: {_of_spark(problem)}"
    return "".join(traceback.format_exception_only(problem)).strip()


def _of_spark(problem: BaseException) -> str:
    """Spark's message without its plan and the trace of the JVM, but with that of Python in a worker."""
    text = str(problem)
    at = text.find(_WORKER_TRACE)
    if at >= 0:
        return _worker_trace(text[at:])
    return java_message(problem)


def _worker_trace(text: str) -> str:
    """The error that Python raised on a worker of Spark, with its trace."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.lstrip().startswith(("at org.", "at java.", "at scala.")) or line.startswith(
            "\tat"
        ):
            break
        lines.append(line)
    own = [line for at, line in enumerate(lines) if line.strip() and not _of_pyspark(lines, at)]
    # What was raised comes first: where there is room for one line alone, it is this one.
    ends = max(at for at, line in enumerate(own) if line.startswith((" ", _WORKER_TRACE))) + 1
    return "\n".join((*own[ends:], *own[:ends])).strip()


def _of_pyspark(lines: list[str], at: int) -> bool:
    """Whether a line of a trace, or the one that it belongs to, is of pyspark itself."""
    line = lines[at]
    if line.lstrip().startswith('File "'):
        return "pyspark" in line
    if at and lines[at - 1].lstrip().startswith('File "') and line.startswith("    "):
        return "pyspark" in lines[at - 1]
    return set(line.strip()) <= {"^", "~"}
