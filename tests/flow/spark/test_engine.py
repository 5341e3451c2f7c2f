"""Spark that is opened, lost, and opened again."""

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from arco.core.errors import Unavailable
from arco.flow.spark.engine import SparkEngine


class Gateway:
    """A way to a JVM that was killed while Spark was starting in it."""

    proc = None

    def __init__(self) -> None:
        self.closed = False

    def shutdown(self) -> None:
        self.closed = True


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has not started Spark yet; afterwards all is as it was."""
    for name in ("_gateway", "_jvm", "_active_spark_context"):
        monkeypatch.setattr(SparkContext, name, None)
    monkeypatch.setattr(SparkSession, "_instantiatedSession", None)


@pytest.mark.usefixtures("no_spark")
def test_a_jvm_that_dies_while_spark_starts_is_not_asked_again() -> None:
    gateways: list[Gateway] = []
    found: list[object] = []

    def opener() -> SparkSession:
        found.append(SparkContext._gateway)  # pyspark goes on with what is there
        gateways.append(Gateway())
        SparkContext._gateway = gateways[-1]
        raise Unavailable("Spark at local[*] could not be reached or started")

    engine = SparkEngine(opener)
    for _ in range(2):
        with pytest.raises(Unavailable):
            engine.new_session()

    assert found == [None, None]
    assert [each.closed for each in gateways] == [True, True]
    assert not engine.is_open
