"""Place names: what is one place has one name, and what lies in another begins with its name."""

import pytest

from arco.catalog.location import (
    at_or_above,
    check_attached,
    is_id,
    is_managed,
    managed_by,
    place_name,
)
from arco.core.errors import Invalid

ID = "018f0000-0000-7000-8000-000000000001"


@pytest.mark.parametrize(
    ("location", "name"),
    [
        ("s3://lake/a/", "s3://lake/a/"),
        ("s3a://LAKE/a/", "s3://lake/a/"),
        ("s3n://lake/%61/", "s3://lake/a/"),
        ("s3://lake/", "s3://lake/"),
        ("s3://lake/A/", "s3://lake/A/"),
        ("gs://lake/a/", "gs://lake/a/"),
        ("abfss://box@acc.dfs.core.windows.net/x/", "az://box/x/"),
        ("wasbs://box@acc.blob.core.windows.net/x/", "az://box/x/"),
        ("file:///Data/x/", "file:///data/x/"),
        (f"warehouse/{ID}/", f"warehouse/{ID}/"),
        (f"warehouse/{ID}/%41/", f"warehouse/{ID}/a/"),
    ],
)
def test_every_spelling_of_a_location_has_one_place_name(location: str, name: str) -> None:
    assert place_name(location) == name
    assert place_name(name) == name


def test_all_locations_that_contain_one_are_listed() -> None:
    assert at_or_above("s3://b/x/y/") == ["s3://b/", "s3://b/x/", "s3://b/x/y/"]
    assert at_or_above("s3://b/") == ["s3://b/"]
    assert at_or_above("file:///x/") == ["file:///", "file:///x/"]
    assert at_or_above(f"warehouse/{ID}/") == ["warehouse/", f"warehouse/{ID}/"]


def test_a_location_in_the_workspace_names_its_owner() -> None:
    assert managed_by(f"warehouse/{ID}/x/") == ID
    assert managed_by("s3://b/warehouse/x/") is None
    assert is_managed("warehouse/x/")
    assert not is_managed("s3://b/warehouse/")
    assert check_attached(f"warehouse/{ID}", ()) == f"warehouse/{ID}/"
    assert check_attached("s3a://b/x", ()) == "s3a://b/x/"


@pytest.mark.parametrize(
    "location",
    [
        *("warehouse/", "warehouse//", f"warehouse/{ID.upper()}A/", f"warehouse/{ID}//x/"),
        *(f"warehouse/{ID}/./", f"warehouse/{ID}/%2e%2e/x/", f"warehouse/{ID}/a\\b/"),
        *(f"warehouse/{ID}/\n", f"warehouse/{ID}/#", f"warehouse/{ID}/" + "x" * 2_048),
    ],
)
def test_a_malformed_location_in_the_workspace_is_refused(location: str) -> None:
    with pytest.raises(Invalid):
        check_attached(location, ())


def test_an_id_is_a_uuid_in_small_letters() -> None:
    assert is_id(ID)
    assert not any(map(is_id, ("", "x", ID.replace("f", "F"), ID.replace("-", ""), f"{{{ID}}}")))
