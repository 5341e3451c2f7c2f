"""Whether Spark can compact here, told before it is started (law 13)."""

from importlib.util import find_spec

from arco.core import java


def spark_installed() -> bool:
    """Whether the libraries of the extra `spark` are there; they are not loaded."""
    return all(find_spec(name) is not None for name in ("pyspark", "pandas"))


def check_java() -> None:
    """`Unsupported`, and what to do, unless there is a Java that Spark can run on."""
    java.check_java("go on without Spark (--no-spark)")
