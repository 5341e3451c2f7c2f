"""Hints: what to do about an error of Spark that does not say it."""

from collections.abc import Callable
from contextlib import suppress

from pyspark.errors import AnalysisException

from arco.flow.define.name import last_part, three_levels
from arco.flow.work.port import LakeTable

_NOT_FOUND = "TABLE_OR_VIEW_NOT_FOUND"


def hint(problem: BaseException, find: Callable[[str], LakeTable | None]) -> str | None:
    """One line more for whoever asked Spark for a table of plain files by its name."""
    if not isinstance(problem, AnalysisException) or problem.getCondition() != _NOT_FOUND:
        return None
    with suppress(Exception):  # it is the problem that counts, whatever keeps us from saying more
        told = (problem.getMessageParameters() or {})["relationName"]
        name = three_levels(told.replace("`", '"'))
        found = find(name)
        if found is not None and found.format.lower() == "parquet":
            return (
                f"{name} is there, but Spark does not know tables of plain Parquet files by name: let "
                f"an asset have a parameter {last_part(name)}=table({name!r}), and a task reads=[{name!r}]"
            )
    return None
