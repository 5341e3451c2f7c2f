"""Hints: what to do about an error of Spark that does not say it."""

from collections.abc import Callable
from contextlib import suppress

from pyspark.errors import AnalysisException

from arco.flow.define.table_name import base_name, qualified_name
from arco.flow.work.port import LakeTable

_NOT_FOUND = "TABLE_OR_VIEW_NOT_FOUND"
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
MEMORY_OF_LOST = f"If it was killed for want of memory, give it more: {_MORE_MEMORY}."


def memory_hint(problem: BaseException) -> str | None:
    """What to do about an error that comes from too little memory; None of any other."""
    cause: BaseException | None = problem
    while cause is not None:
        if isinstance(cause, MemoryError) or any(each in str(cause) for each in _OUT_OF_MEMORY):
            return f"This looks like too little memory: give Spark more with {_MORE_MEMORY}."
        cause = cause.__cause__
    return None


def hint(problem: BaseException, find: Callable[[str], LakeTable | None]) -> str | None:
    """One line more for whoever asked Spark for a table of plain files by its name."""
    if not isinstance(problem, AnalysisException) or problem.getCondition() != _NOT_FOUND:
        return None
    with suppress(Exception):  # it is the problem that counts, whatever keeps us from saying more
        told = (problem.getMessageParameters() or {})["relationName"]
        name = qualified_name(told.replace("`", '"'))
        found = find(name)
        if found is not None and found.format.lower() == "parquet":
            return (
                f"{name} is there, but Spark does not know tables of plain Parquet files by name: let "
                f"an asset have a parameter {base_name(name)}=table({name!r}), and a task reads=[{name!r}]"
            )
    return None
