"""The way to the JVM: names of errors there, names of tables, and who answers no more."""

from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from arco.catalog.name import parse_dotted
from arco.flow.spark.choice import quoted

_DEEPEST = 20


JvmError = Py4JError


def jvm_of(session: SparkSession) -> Any:
    """The JVM behind a session."""
    return session._jvm  # noqa: SLF001 - there is no other way to it


def java_of(session: SparkSession) -> Any:
    """The session as Java knows it."""
    return session._jsparkSession  # noqa: SLF001


def session_tag(session: SparkSession) -> str:
    """The tag that Spark itself gives to all jobs of a session."""
    return f"spark-session-{java_of(session).sessionUUID()}"


def java_errors(problem: BaseException) -> tuple[str, ...]:
    """The class names of an error of the JVM and of its causes, the outermost first."""
    error = _thrown(problem)
    found: list[str] = []
    while error is not None and len(found) < _DEEPEST:
        found.append(str(error.getClass().getName()))
        error = error.getCause()
    return tuple(found)


def java_message(problem: BaseException) -> str:
    """The first line of what an error of the JVM says; of the innermost cause that says anything."""
    error, said = _thrown(problem), str(problem)
    depth = 0
    while error is not None and depth < _DEEPEST:
        said = error.getMessage() or said
        error, depth = error.getCause(), depth + 1
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[0] if lines else type(problem).__name__


def _thrown(problem: BaseException) -> Any:
    if isinstance(problem, Py4JJavaError):
        return problem.java_exception
    if isinstance(problem, PySparkException):
        return getattr(problem, "_origin", None)
    return None


def is_raised_by(problem: BaseException, *names: str) -> bool:
    """Whether the JVM threw an error of one of these simple names, or one was the cause."""
    return any(each.rpartition(".")[2] in names for each in java_errors(problem))


def sql_name(table: str) -> str:
    """A full name as Spark's SQL writes it."""
    return ".".join(map(quoted, parse_dotted(table)))
