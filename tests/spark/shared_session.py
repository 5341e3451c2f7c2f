"""The one Spark of a process of tests."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def shared_session() -> "SparkSession":
    """The Spark that runs in this process; started again if an earlier test has killed its JVM."""
    from pyspark.sql import SparkSession

    from arco.compactor.spark.session import open_session
    from arco.flow.spark.engine import is_alive, reset_gateway

    session = SparkSession._instantiatedSession
    if session is not None and not is_alive(session):
        reset_gateway()
    return open_session("local[2]")
