"""What `from arco import ...` offers, and what it costs."""

import subprocess
import sys

import pytest

import arco

PUBLIC = [
    *("Context", "Daily", "Dynamic", "Hourly", "Monthly", "Result", "Retry", "Static", "Weekly"),
    *("all_partitions", "asset", "check", "checks", "custom", "identity", "latest", "merge"),
    *("offset", "roll_up", "source", "sql", "table", "task", "window"),
]


def test_the_names_that_pipelines_are_written_with_are_these() -> None:
    assert sorted(arco.__all__) == PUBLIC
    assert all(getattr(arco, name).__module__.startswith("arco.flow") for name in _made())
    assert set(PUBLIC) <= set(dir(arco))


def _made() -> list[str]:
    """Those that are functions or classes."""
    others = {"all_partitions", "identity", "latest", "roll_up", "checks"}
    return [name for name in PUBLIC if name not in others]


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'arco' has no attribute 'assets'"):
        _ = arco.assets


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import arco", ["arco.flow", "msgspec", "pyarrow"]),
        ("from arco import *; import arco.flow.spark, arco.flow.spark.jars", ["pyspark", "py4j"]),
    ],
)
def test_importing_costs_only_what_is_used(code: str, absent: list[str]) -> None:
    asked = f"import sys; {code}; print([each for each in {absent!r} if each in sys.modules])"
    run = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
