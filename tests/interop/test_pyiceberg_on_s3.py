"""PyIceberg with its files on S3, beside the metadata of an Arco on the same bucket."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog, load_catalog

from tests.cli.serving import serving
from tests.interop import pyiceberg_client
from tests.interop.pyiceberg_client import ROWS, content, ids, numbered, rows
from tests.interop.rest import URI
from tests.stores import store_url

pytestmark = pytest.mark.interop

client = pyiceberg_client.name


@pytest.fixture(params=["moto", "minio"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path, namespace: str) -> Iterator[Catalog]:
    if URI in os.environ:
        pytest.skip(f"{URI} names a server whose store is its own")
    store = store_url(request.param, request)
    with serving(tmp_path / "store", store=store) as served:
        s3_catalog = load_catalog(
            "arco",
            **{
                "type": "rest",
                "uri": f"{served.url}/iceberg",
                "warehouse": "default",
                "s3.endpoint": store.partition("?endpoint=")[2],
                "s3.access-key-id": os.environ["AWS_ACCESS_KEY_ID"],
                "s3.secret-access-key": os.environ["AWS_SECRET_ACCESS_KEY"],
                "s3.region": "us-east-1",
            },
        )
        s3_catalog.create_namespace(namespace)
        yield s3_catalog


def test_rows_on_s3_are_written_changed_and_read_back(catalog: Catalog, namespace: str) -> None:
    table = catalog.create_table((namespace, "t"), ROWS)
    table.append(numbered(1, 2, 3))
    table.delete("id = 2")
    table.upsert(rows((3, "new"), (4, "d")), join_cols=["id"])
    loaded_table = catalog.load_table((namespace, "t"))

    assert loaded_table.location().startswith("s3://arco/")
    assert loaded_table.metadata_location.startswith(f"{loaded_table.location()}/metadata/")
    assert ids(loaded_table) == [1, 3, 4]
    assert content(loaded_table)[1] == {"id": 3, "word": "new"}


def test_a_table_on_s3_is_created_with_its_first_rows_and_purged(
    catalog: Catalog, namespace: str
) -> None:
    with catalog.create_table_transaction((namespace, "t"), ROWS) as transaction:
        transaction.append(numbered(1, 2))
    assert ids(catalog.load_table((namespace, "t"))) == [1, 2]
    catalog.purge_table((namespace, "t"))

    assert catalog.list_tables(namespace) == []
