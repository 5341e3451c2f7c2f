"""What Spark is told of the store that tables lie on, and which stores it cannot reach."""

from pathlib import Path

import pytest

from arco.core.errors import Unsupported
from arco.flow.spark.jars import S3_VARIABLE, Jars
from arco.flow.spark.stores import StoreDoor, door_to
from arco.flow.worker.ports import LakeStore
from tests.flow.spark.shared import SharedSpark

BUCKET = "spark.hadoop.fs.s3a.bucket.lake"


@pytest.fixture(autouse=True)
def s3_jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A jar that stands for those of S3."""
    path = tmp_path / "s3.jar"
    path.write_bytes(b"a jar")
    monkeypatch.setenv(S3_VARIABLE, str(path))
    return path


def door(location: str, *elsewhere: str, machine: str | None = None, **settings: str) -> StoreDoor:
    said = {f"s3.{name.replace('_', '-')}": value for name, value in settings.items()}
    return door_to(LakeStore(location=location, settings=said), elsewhere, {}, machine)


def test_a_disk_needs_nothing() -> None:
    assert door("file:///data/arco/") == StoreDoor()
    assert door("") == StoreDoor()


def test_a_bucket_is_reached_as_the_server_says_and_others_as_usual(s3_jar: Path) -> None:
    found = door(
        "s3://lake/arco/", endpoint="http://minio:9000", region="eu-1", path_style_access="true"
    )
    own = {name: each for name, each in found.settings.items() if ".bucket." in name}
    assert own == {
        f"{BUCKET}.endpoint": "http://minio:9000",
        f"{BUCKET}.endpoint.region": "eu-1",
        f"{BUCKET}.path.style.access": "true",
    }
    assert not [name for name in found.settings if name.endswith("s3a.endpoint")]
    assert found.jars == Jars((s3_jar,))
    assert found.catalog == {}


def test_a_store_that_knows_no_regions_is_given_one_unless_the_machine_has_one() -> None:
    found = door("s3://lake/", endpoint="http://minio:9000")
    assert found.catalog == {"client.region": "us-east-1", "s3.region": "us-east-1"}
    assert found.settings[f"{BUCKET}.endpoint.region"] == "us-east-1"
    named = door("s3://lake/", endpoint="http://minio:9000", machine="eu-1")
    assert (named.catalog, named.settings[f"{BUCKET}.endpoint.region"]) == ({}, "eu-1")
    assert door("s3://lake/").catalog == {}


def test_no_secret_is_told() -> None:
    found = door("s3://lake/", endpoint="http://minio:9000")
    assert not [name for name in found.settings if "key" in name or "secret" in name]


def test_a_table_elsewhere_on_s3_needs_the_jars_too(s3_jar: Path) -> None:
    found = door("file:///data/", "s3://other/table")
    assert found.jars == Jars((s3_jar,))
    assert not [name for name in found.settings if ".bucket." in name]


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("gs://lake/arco/", "gs://.*iceberg-gcp-bundle"),
        ("abfss://lake@account.dfs.core.windows.net/", "abfss://.*iceberg-azure-bundle"),
        ("az://lake/arco/", "az://"),
        ("memory://", "--root or --store"),
    ],
)
def test_a_store_that_spark_cannot_reach_is_refused_with_what_to_do(
    location: str, said: str
) -> None:
    with pytest.raises(Unsupported, match=said):
        door(location)


def test_whoever_brings_jars_may_use_any_cloud() -> None:
    store = LakeStore(location="gs://lake/arco/")
    assert door_to(store, (), {"spark.jars.packages": "a:b:1"}, None) == StoreDoor()
    with pytest.raises(Unsupported, match="memory"):
        door_to(LakeStore(location="memory://"), (), {"spark.jars": "/x.jar"}, None)


def test_where_the_store_is_the_server_says(shared: SharedSpark) -> None:
    found = shared.lake.store()
    assert found.location.startswith("file:///")
    assert found.location.endswith("/tenant=default/workspace=default/")
    assert found.settings == {}
