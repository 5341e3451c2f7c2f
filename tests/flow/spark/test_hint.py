"""Errors that come from too little memory say what to do about it."""

import pytest

from arco.flow.spark.task_errors import memory_hint


@pytest.mark.parametrize(
    "problem",
    [
        MemoryError(),
        RuntimeError("java.lang.OutOfMemoryError: Java heap space"),
        RuntimeError("SparkException: Python worker exited unexpectedly (crashed)"),
        RuntimeError("Container killed by YARN for exceeding memory limits. 5.5 GB used"),
        RuntimeError("The executor with id 1 exited with exit code 137(SIGKILL, possible OOM)"),
    ],
)
def test_memory_is_named(problem: Exception) -> None:
    assert "--memory" in (memory_hint(problem) or "")
    caused = ValueError("the step failed")
    caused.__cause__ = problem
    assert "--memory" in (memory_hint(caused) or "")


def test_other_errors_say_nothing_of_memory() -> None:
    assert memory_hint(ValueError("x")) is None
