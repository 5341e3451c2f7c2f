import pytest

from arco.catalog.location import check_location, managed_location
from arco.core.errors import Invalid

ROOTS = ("s3://lake/arco/", "file:///srv/my%20arco/", "file:///srv/data")


@pytest.mark.parametrize(
    ("location", "spelled"),
    [
        ("s3://lake/sales", "s3://lake/sales/"),
        ("S3A://lake/sales/", "s3a://lake/sales/"),
        ("gs://b", "gs://b/"),
        ("abfss://box@acc.dfs.core.windows.net/x", "abfss://box@acc.dfs.core.windows.net/x/"),
        ("file:///tmp/x", "file:///tmp/x/"),
        ("hdfs:///x", "hdfs:///x/"),
        ("s3://lake/arcology", "s3://lake/arcology/"),
        ("s3://lake/a b/ü", "s3://lake/a b/ü/"),
    ],
)
def test_a_place_outside_is_kept_in_one_spelling(location: str, spelled: str) -> None:
    assert check_location(location, ROOTS) == spelled
    assert check_location(spelled, ROOTS) == spelled


@pytest.mark.parametrize(
    "location",
    [
        "s3://lake/arco",
        "s3://lake/arco/x",
        "s3://lake",
        "s3://lake/",
        "s3://LAKE/arco/x",
        "s3://lake//arco///x",
        "s3://lake/%61rco/x",
        "s3://lake/%2561rco/x",
        "file:///srv/my arco/x",
        "file:///srv/my%20arco/x",
        "file:/srv/data/x",
        "file:///srv",
        "file:///",
    ],
)
def test_no_table_lies_in_our_own_root_or_around_it(location: str) -> None:
    with pytest.raises(Invalid):
        check_location(location, ROOTS)


@pytest.mark.parametrize(
    "location",
    [
        *("", "/tmp/x", "x", "http://b/x", "javascript:alert(1)", "//b/x", "s3:b", "s3:///x"),
        *("s3://b/../x", "s3://b/./x", "s3://b/%2e%2e/x", "s3://b/%252e%252e/x", "s3://b/a\\b"),
        *(
            "s3://b/%00x",
            "s3://b/x\x00",
            "s3://b/x\n",
            "s3://b/\u202ex",
            "s3://b/x?y=1",
            "s3://b/#",
        ),
        *("s3://key:secret@b/x", "s3://key@b/x", "abfss://a:b@c/x", "s3://[::1/x", "s3://b:x/y"),
        *("file://host/x", "s3://b%2fx/y", "s3://b/" + "x" * 2_048),
    ],
)
def test_tricks_and_secrets_are_refused(location: str) -> None:
    with pytest.raises(Invalid):
        check_location(location, ())


def test_a_managed_place_follows_from_the_id() -> None:
    assert managed_location("018f") == "warehouse/018f/"
