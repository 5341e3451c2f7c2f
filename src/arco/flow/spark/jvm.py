"""Access to Spark's JVM: sessions, errors, Scala collections and quoted names.

Each call costs about 0.1 ms, so a whole collection is printed by one call where its text is enough, and
`CallBudget` limits what lineage may spend on one query.
"""

import time
from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from arco.catalog.name import parse_dotted

JvmError = Py4JError
Java = Any  # an object of the JVM: it has the methods of its class there

_MAX_CAUSES = 20
_QUERY_MS = 150.0


def jvm_of(session: SparkSession) -> Any:
    """The JVM behind a session."""
    return session._jvm  # noqa: SLF001 - pyspark has no public access


def java_session(session: SparkSession) -> Any:
    """The Java object of a session."""
    return session._jsparkSession  # noqa: SLF001


def session_tag(session: SparkSession) -> str:
    """The tag that Spark itself gives to all jobs of a session."""
    return f"spark-session-{java_session(session).sessionUUID()}"


def java_errors(problem: BaseException) -> tuple[str, ...]:
    """The class names of an error of the JVM and of its causes, the outermost first."""
    error = _java_exception(problem)
    names: list[str] = []
    while error is not None and len(names) < _MAX_CAUSES:
        names.append(str(error.getClass().getName()))
        error = error.getCause()
    return tuple(names)


def java_message(problem: BaseException) -> str:
    """The first line of an error of the JVM, taken from the innermost cause that has a message."""
    error, message = _java_exception(problem), str(problem)
    depth = 0
    while error is not None and depth < _MAX_CAUSES:
        message = error.getMessage() or message
        error, depth = error.getCause(), depth + 1
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return lines[0] if lines else type(problem).__name__


def is_raised_by(problem: BaseException, *names: str) -> bool:
    """Whether the JVM threw an error with one of these simple class names, or one was the cause."""
    return any(each.rpartition(".")[2] in names for each in java_errors(problem))


def quote_name(name: str) -> str:
    """The name of a column as one identifier in Spark's SQL, whatever dots it has."""
    doubled = name.replace("`", "``")
    return f"`{doubled}`"


def sql_name(table: str) -> str:
    """The full name of a table in Spark's SQL."""
    return ".".join(map(quote_name, parse_dotted(table)))


def class_of(node: Java) -> str:
    """The class of an object, without its package."""
    return str(node.getClass().getSimpleName())


def iterate(collection: Java) -> Iterator[Java]:
    """The items of a Scala collection."""
    items = collection.iterator()
    while items.hasNext():
        yield items.next()


def texts(collection: Java) -> list[str]:
    """The items of a Scala collection, printed in one call; no item may hold a line break."""
    text = str(collection.mkString("\n"))
    return text.split("\n") if text else []


def option(value: Java) -> Java | None:
    """The value of a Scala Option, or None."""
    return value.get() if value.isDefined() else None


def first_id(node: Java) -> int | None:
    """The id of an operator's first output column."""
    output = node.output()
    return None if output.isEmpty() else int(output.head().exprId().id())


class CallBudget:
    """Processor time of this thread that may be spent on one query; some of it may be spent before."""

    def __init__(self, *, spent_ms: float = 0.0) -> None:
        self._start_ms = _thread_ms() - spent_ms

    def spent_ms(self) -> float:
        """The time used so far."""
        return _thread_ms() - self._start_ms

    def is_spent(self) -> bool:
        """Whether no time is left."""
        return self.spent_ms() >= _QUERY_MS


def _thread_ms() -> float:
    return time.thread_time_ns() / 1e6


def _java_exception(problem: BaseException) -> Any:
    if isinstance(problem, Py4JJavaError):
        return problem.java_exception
    if isinstance(problem, PySparkException):
        return getattr(problem, "_origin", None)
    return None
