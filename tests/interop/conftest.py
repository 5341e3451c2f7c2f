"""Servers and names for the suites; each test works in its own namespace."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from tests.figures import Figure
from tests.interop.pyiceberg_client import ROWS, connect
from tests.interop.rest import Rest, given_server, our_catalog
from tests.interop.spark_client import Spark, running_spark


@pytest.fixture(scope="session")
def rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rest]:
    """The catalog that every suite but the RCK shares."""
    outside = tmp_path_factory.mktemp("outside")
    other = given_server(outside)
    if other is not None:
        yield other
        return
    with our_catalog(tmp_path_factory.mktemp("arco") / "store", outside) as ours:
        yield ours


@pytest.fixture
def namespace() -> str:
    return f"ns_{uuid4().hex[:8]}"


@pytest.fixture
def table_directory(rest: Rest, namespace: str) -> Path:
    """A directory for a table, outside of the warehouse; it does not exist yet."""
    return rest.outside / namespace


@pytest.fixture
def catalog(rest: Rest, namespace: str) -> Catalog:
    """PyIceberg, with the namespace of the test made."""
    pyiceberg_catalog = connect(rest)
    pyiceberg_catalog.create_namespace(namespace)
    return pyiceberg_catalog


@pytest.fixture
def table(catalog: Catalog, namespace: str) -> Table:
    return catalog.create_table((namespace, "t"), ROWS)


@pytest.fixture(scope="session")
def spark(rest: Rest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    """One session for all: it takes longer to start than most of what it is asked."""
    with running_spark(rest, tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture
def sql(spark: Spark, namespace: str) -> Spark:
    """A session whose current namespace is that of the test."""
    spark.run(f"CREATE NAMESPACE arco.{namespace}")
    spark.run(f"USE arco.{namespace}")
    return spark


@pytest.fixture(autouse=True)
def claimed(request: pytest.FixtureRequest, figure: Figure) -> None:
    """Print which version of which client has shown what."""
    client: Callable[[], str] = request.module.client
    figure(f"{client()}: {request.node.name.removeprefix('test_').replace('_', ' ')}")


@pytest.fixture(autouse=True, scope="session")
def alone() -> None:
    """No catalog that is set up on this machine may creep into a client."""
    for name in list(os.environ):
        if name.startswith(("CATALOG_", "PYICEBERG_", "SPARK_")):
            del os.environ[name]
