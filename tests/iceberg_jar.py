"""The jar by which Spark knows Iceberg, from the cache that `arco run` uses."""

from functools import cache
from pathlib import Path

import pytest

from arco.flow.spark.jars import iceberg_jars


@cache
def iceberg_jar() -> Path:
    """The jar. A test that needs it fails without it: `make setup` fetches it, so none is skipped."""
    paths = iceberg_jars().paths
    if not paths:
        pytest.fail("the jar of Iceberg for Spark could not be fetched: run `make setup`")
    return paths[0]
