"""What Spark is set up with for a project, before it is started."""

from pathlib import Path

import pytest

from arco.cli.flow.spark_executor import spark_needs
from arco.client.task_catalog import HttpTaskCatalog
from arco.flow.define import find_problems, load_project
from arco.flow.worker.ports import CatalogColumn, NewCatalogTable
from tests.client.test_task_catalog import with_catalog

CODE = """
from arco import asset, source
from arco import checks as c

source("raw.customers")

@asset("gold.orders", format="parquet", checks=[CHECK])
def orders(spark):
    return spark.range(1)
"""


@pytest.mark.parametrize(
    "check",
    [
        "c.references('id', 'raw.customers')",
        "c.sql('select * from gold.orders join raw.customers using (id)')",
        "c.sql('select * from parquet.`/tmp/x`, a.b.c.d, raw.customers')",
    ],
)
async def test_a_table_that_a_check_alone_looks_into_brings_its_catalog(
    tmp_path: Path, check: str
) -> None:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "all.py").write_text(CODE.replace("CHECK", check))
    project = load_project(tmp_path)
    assert find_problems(project) == []
    columns = (CatalogColumn(name="id", data_type="bigint"),)

    def work(catalog: HttpTaskCatalog) -> None:
        assert spark_needs(project, catalog).catalogs == frozenset()
        made = catalog.make(
            NewCatalogTable(name="default.raw.customers", format="iceberg", columns=columns)
        )
        needs = spark_needs(project, catalog)
        assert needs.catalogs == {"default"}
        assert needs.elsewhere == (made.location,)

    await with_catalog(work)
