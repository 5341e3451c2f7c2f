"""The settings of Spark for the stores of tables, and stores that it cannot reach."""

from pathlib import Path

import pytest

from arco.core.errors import Unsupported
from arco.flow.spark.jars import S3_VARIABLE, Jars
from arco.flow.spark.stores import StoreSettings, store_settings
from arco.flow.worker.ports import CatalogStore
from tests.flow.spark.shared_spark import SharedSpark

BUCKET = "spark.hadoop.fs.s3a.bucket.lake"


@pytest.fixture(autouse=True)
def s3_jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A jar that stands for those of S3."""
    path = tmp_path / "s3.jar"
    path.write_bytes(b"a jar")
    monkeypatch.setenv(S3_VARIABLE, str(path))
    return path


def door(
    location: str, *elsewhere: str, machine: str | None = None, **settings: str
) -> StoreSettings:
    properties = {f"s3.{name.replace('_', '-')}": value for name, value in settings.items()}
    return store_settings(
        CatalogStore(location=location, settings=properties), elsewhere, {}, machine
    )


def test_a_disk_needs_nothing() -> None:
    assert door("file:///data/arco/") == StoreSettings()
    assert door("") == StoreSettings()


def test_a_bucket_is_reached_as_the_server_says_and_others_as_usual(s3_jar: Path) -> None:
    settings = door(
        "s3://lake/arco/", endpoint="http://minio:9000", region="eu-1", path_style_access="true"
    )
    own = {name: each for name, each in settings.settings.items() if ".bucket." in name}
    assert own == {
        f"{BUCKET}.endpoint": "http://minio:9000",
        f"{BUCKET}.endpoint.region": "eu-1",
        f"{BUCKET}.path.style.access": "true",
    }
    assert not [name for name in settings.settings if name.endswith("s3a.endpoint")]
    assert settings.jars == Jars((s3_jar,))
    assert settings.catalog == {}


def test_a_store_that_knows_no_regions_is_given_one_unless_the_machine_has_one() -> None:
    settings = door("s3://lake/", endpoint="http://minio:9000")
    assert settings.catalog == {"client.region": "us-east-1", "s3.region": "us-east-1"}
    assert settings.settings[f"{BUCKET}.endpoint.region"] == "us-east-1"
    named = door("s3://lake/", endpoint="http://minio:9000", machine="eu-1")
    assert (named.catalog, named.settings[f"{BUCKET}.endpoint.region"]) == ({}, "eu-1")
    assert door("s3://lake/").catalog == {}


def test_settings_hold_no_secret() -> None:
    settings = door("s3://lake/", endpoint="http://minio:9000")
    assert not [name for name in settings.settings if "key" in name or "secret" in name]


def test_a_table_elsewhere_on_s3_needs_the_jars_too(s3_jar: Path) -> None:
    settings = door("file:///data/", "s3://other/table")
    assert settings.jars == Jars((s3_jar,))
    assert not [name for name in settings.settings if ".bucket." in name]


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("gs://lake/arco/", "gs://.*iceberg-gcp-bundle"),
        ("abfss://lake@account.dfs.core.windows.net/", "abfss://.*iceberg-azure-bundle"),
        ("az://lake/arco/", "az://"),
        ("memory://", "--root or --store"),
    ],
)
def test_a_store_that_spark_cannot_reach_is_refused_with_what_to_do(
    location: str, message: str
) -> None:
    with pytest.raises(Unsupported, match=message):
        door(location)


def test_with_jars_of_the_user_any_cloud_is_supported() -> None:
    store = CatalogStore(location="gs://lake/arco/")
    assert store_settings(store, (), {"spark.jars.packages": "a:b:1"}, None) == StoreSettings()
    with pytest.raises(Unsupported, match="memory"):
        store_settings(CatalogStore(location="memory://"), (), {"spark.jars": "/x.jar"}, None)


def test_the_server_reports_the_location_of_its_store(shared: SharedSpark) -> None:
    store = shared.catalog.store()
    assert store.location.startswith("file:///")
    assert store.location.endswith("/tenant=default/workspace=default/")
    assert store.settings == {}
