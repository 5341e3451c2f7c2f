import pytest

from arco.catalog.location import canonical, check_location, managed_location, overlap
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
def test_an_external_location_is_normalised(location: str, spelled: str) -> None:
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
def test_a_location_that_overlaps_the_root_of_arco_is_refused(location: str) -> None:
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
        *("file:x", "hdfs:x/y", "s3://b/%2f", "s3://b/x%2f/y", "s3://b/%5cx", "s3://b/%0ax"),
        *("s3://b/%c0%ae%c0%ae/x", "s3://b/%ff", "s3://b/%25252e%25252e/x", "s3://b/\ud800"),
    ],
)
def test_tricks_and_secrets_are_refused(location: str) -> None:
    with pytest.raises(Invalid):
        check_location(location, ())


def test_a_managed_location_is_derived_from_the_id() -> None:
    assert managed_location("018f") == "warehouse/018f/"


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("s3a://lake/sales", "s3://lake/sales/"),
        ("S3N://lake/sales/", "s3://lake/sales/"),
        ("gs://lake/a%20b", "gs://lake/a%20b/"),
        ("file:/tmp/x", "file:///tmp/x/"),
        ("abfs://box@Acc.dfs.core.windows.net/X", "abfss://box@acc.dfs.core.windows.net/X/"),
        ("wasbs://box@acc.blob.core.windows.net/X", "abfss://box@acc.dfs.core.windows.net/X/"),
        ("az://box/x", "az://box/x/"),
    ],
)
def test_a_location_has_one_spelling_for_all_aliases_of_its_scheme(
    location: str, expected: str
) -> None:
    assert canonical(location) == expected
    assert canonical(expected) == expected


@pytest.mark.parametrize(
    ("location", "root"),
    [
        ("s3a://lake/arco/x/", "s3://lake/arco"),
        ("abfss://box@acc.dfs.core.windows.net/arco/x/", "az://box/arco/"),
        ("wasbs://box@acc.blob.core.windows.net/", "az://box/arco/"),
        ("file:///srv/ARCO/x/", "file:///srv/arco/"),
        ("file:///srv/e\u0301/x/", "file:///srv/\u00e9/"),
        ("file:///srv/a%2561/", "file:///srv/aa/"),
        ("file:///srv/x/", "file:///"),
    ],
)
def test_every_spelling_of_the_root_of_arco_counts_as_the_root(location: str, root: str) -> None:
    assert overlap(location, root)
    assert overlap(root, location)


@pytest.mark.parametrize(
    ("location", "other"),
    [
        ("s3://lake/arcology/", "s3://lake/arco/"),
        ("s3://lake/ARCO/", "s3://lake/arco/"),
        ("gs://lake/arco/", "s3://lake/arco/"),
        ("az://box2/arco/", "abfss://box@acc.dfs.core.windows.net/arco/"),
    ],
)
def test_sibling_locations_do_not_overlap(location: str, other: str) -> None:
    assert not overlap(location, other)
    assert not overlap(other, location)
