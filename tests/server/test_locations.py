"""Locations outside the store that an operator allows, by flag or by variable."""

from pathlib import Path

import pytest

from arco.core.errors import Invalid
from arco.core.runtime import Runtime
from arco.server.locations import AllowedLocations
from arco.storage.roles import Role
from tests.cli.command import arco, is_one_sentence

TOKEN = "a-secret-of-our-own-processes-for-tests-only"
AZURE = "abfss://box@acc.dfs.core.windows.net/x/"


@pytest.mark.parametrize(
    ("given", "prefixes"),
    [
        ("s3://lake/ext", ["s3://lake/ext/"]),
        ("s3a://lake/ext/", ["s3://lake/ext/"]),
        ("s3://lake?region=eu-north-1", ["s3://lake/"]),
        ("gs://lake/a/b", ["gs://lake/a/b/"]),
        ("az://box/x?account=acc", ["az://box/x/", AZURE]),
        ("abfss://box@acc.dfs.core.windows.net/x", ["az://box/x/", AZURE]),
        ("wasbs://box@acc.blob.core.windows.net/x", ["az://box/x/", AZURE]),
        ("az://box/x", ["az://box/x/"]),
        ("file:///tmp/ext", ["file:///tmp/ext/"]),
        ("file:/tmp/ext/", ["file:///tmp/ext/"]),
        ("/tmp/ext", ["file:///tmp/ext/"]),
        ("/tmp/x/../ext", ["file:///tmp/ext/"]),
        ("file:///tmp/a%20b", ["file:///tmp/a b/"]),
        ("file:///", ["file:///"]),
    ],
)
def test_a_location_has_the_prefixes_that_engines_use(given: str, prefixes: list[str]) -> None:
    assert list(AllowedLocations((given,)).urls()) == prefixes
    assert list(AllowedLocations((given, given)).urls()) == prefixes


@pytest.mark.parametrize(
    "given",
    [
        *("", "http://lake/x", "memory://", "s3://", "s3://lake/../x", "s3://key:secret@lake/x"),
        *(
            "s3://lake/x?secret=1",
            "file://host/x",
            "hdfs://lake/x",
            "/tmp/a\nb",
            "/tmp/a\\b",
            "s3:x",
        ),
        *("abfss://box@acc.dfs.evil.example/x", "abfss://box/x"),
    ],
)
def test_an_invalid_location_is_rejected(given: str) -> None:
    with pytest.raises(Invalid):
        AllowedLocations((given,)).urls()


async def test_locations_are_opened_for_a_role_and_nothing_is_created(
    tmp_path: Path, runtime: Runtime
) -> None:
    declared = AllowedLocations((f"{tmp_path}/one", "az://box/x?account=acc"))
    opened = declared.open(runtime, fsync=False)
    assert list(opened) == [f"file://{tmp_path}/one/", "az://box/x/", AZURE]
    assert opened["az://box/x/"] is opened[AZURE]
    assert {each.role for each in opened.values()} == {Role.API}
    assert list(tmp_path.iterdir()) == []
    await opened[f"file://{tmp_path}/one/"].create("t/x", b"1")
    assert (tmp_path / "one/t/x").read_bytes() == b"1"
    janitor = declared.open(runtime, role=Role.JANITOR)
    assert {each.role for each in janitor.values()} == {Role.JANITOR}
    assert AllowedLocations().open(runtime) == {}


@pytest.mark.parametrize("command", ["up", "api"])
def test_an_invalid_location_is_rejected_before_the_store_is_created(
    command: str, tmp_path: Path
) -> None:
    root = tmp_path / "store"
    good = tmp_path.as_uri()
    flagged = arco(
        *(command, "--root", root, "--allow-location", good, "--allow-location", "ftp://x/y"),
        ARCO_SERVICE_TOKEN=TOKEN,
    )
    variables = (f"{good} ftp://x/y", f"{good},ftp://x/y", f" {good}\n, ftp://x/y ,")
    by_variable = [
        arco(command, "--root", root, ARCO_ALLOW_LOCATION=text, ARCO_SERVICE_TOKEN=TOKEN)
        for text in variables
    ]
    for run in (flagged, *by_variable):
        assert run.returncode == 2
        assert is_one_sentence(run.stderr), run.stderr
        assert "--allow-location ftp://x/y: unknown kind of store" in run.stderr
    assert not root.exists()


@pytest.mark.parametrize("command", ["up", "api"])
def test_the_flag_is_in_the_help(command: str) -> None:
    help_text = arco(command, "--help").stdout
    assert "--allow-location URL" in help_text
    assert "ARCO_ALLOW_LOCATION" in help_text
