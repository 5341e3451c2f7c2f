"""The restore drill: a copy of a store is served where the original was, and elsewhere it is refused."""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.rest import RestCatalog

from tests.cli.command import arco
from tests.cli.serving import Served, serving

ROWS = pa.table({"id": [1, 2, 3]})


def _catalog(served: Served) -> RestCatalog:
    catalog = load_catalog("arco", type="rest", uri=f"{served.url}/iceberg", warehouse="default")
    assert isinstance(catalog, RestCatalog)
    return catalog


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two tables of data, one of them in a declared place beside it."""
    root = tmp_path_factory.mktemp("restore") / "store"
    with serving(root, "--allow-location", f"file://{root.parent}/declared") as served:
        catalog = _catalog(served)
        catalog.create_namespace("sales")
        catalog.create_table("sales.orders", schema=ROWS.schema).append(ROWS)
        outside = f"file://{root.parent}/declared/outside"
        catalog.create_table("sales.outside", schema=ROWS.schema, location=outside).append(ROWS)
    return root


@pytest.fixture
def declared(original: Path) -> str:
    return f"file://{original.parent}/declared"


def _without_hints(root: Path) -> int:
    """Remove every object that only saves time (see docs/reference/formats/); how many there were."""
    hints = [
        path
        for pattern in ("head.json", "*.renewal.json", "leases/*.json")
        for path in root.glob(f"tenant=*/workspace=*/**/{pattern}")
        if "/warehouse/" not in str(path)
    ]
    for path in hints:
        path.unlink()
    return len(hints)


def _verified(root: Path, *flags: str) -> dict[str, Any]:
    run = arco("verify", "--root", root, "--json", *flags)
    report = json.loads(run.stdout)
    assert isinstance(report, dict)
    assert run.returncode == (0 if report["ok"] else 1)
    return report


def test_a_copy_without_hints_serves_in_the_place_of_the_original(
    original: Path, declared: str
) -> None:
    copy, lost = original.with_name("copy"), original.with_name("lost")
    shutil.copytree(original, copy, copy_function=shutil.copy2)
    assert _without_hints(copy) > 0
    original.rename(lost)
    copy.rename(original)
    try:
        report = _verified(original, "--allow-location", declared)
        assert (report["ok"], report["iceberg"]["tables"]) == (True, 2)
        with serving(original, "--allow-location", declared) as served:
            catalog = _catalog(served)
            for name in ("sales.orders", "sales.outside"):
                assert catalog.load_table(name).scan().to_arrow() == ROWS
            catalog.load_table("sales.orders").append(ROWS)
            assert catalog.load_table("sales.orders").scan().to_arrow().num_rows == 6
    finally:
        shutil.rmtree(original)
        lost.rename(original)


def test_a_copy_at_another_place_is_reported_as_unreadable(
    original: Path, declared: str, tmp_path: Path
) -> None:
    shutil.copytree(original, tmp_path / "elsewhere")
    report = _verified(tmp_path / "elsewhere", "--allow-location", declared)
    assert report["problem"] is None
    assert report["iceberg"]["failed"] == 1
    [problem] = report["iceberg"]["problems"]
    assert problem["table"] == "default.sales.orders"
    assert problem["path"].startswith(f"file://{original}/")
    output = arco("verify", "--root", tmp_path / "elsewhere", "--allow-location", declared).stdout
    assert (
        f"WRONG: table default.sales.orders ({problem['table_id']}): {problem['path']} is" in output
    )


def test_a_declared_place_that_is_not_named_is_reported(original: Path) -> None:
    [problem] = _verified(original)["iceberg"]["problems"]
    assert problem["table"] == "default.sales.outside"
    assert "--allow-location" in problem["explanation"]


@pytest.mark.parametrize("damage", ["missing", "no JSON", "of another table", "edited"])
def test_a_metadata_file_that_is_not_right_is_named(
    original: Path, declared: str, damage: str
) -> None:
    [newest] = original.glob("tenant=*/workspace=*/warehouse/*/metadata/00001-*.metadata.json")
    right = newest.read_bytes()
    newest.unlink()
    if damage == "no JSON":
        newest.write_bytes(right[: len(right) // 2])
    elif damage == "of another table":
        uuid = json.loads(right)["table-uuid"]
        newest.write_bytes(right.replace(uuid.encode(), b"0197a2c4-58f0-7cc1-8a53-1f0a3c6f2b11", 1))
    elif damage == "edited":
        newest.write_bytes(right + b"\n")
    try:
        [problem] = _verified(original, "--allow-location", declared)["iceberg"]["problems"]
        assert (problem["table"], problem["path"]) == ("default.sales.orders", f"file://{newest}")
        if damage != "missing":
            return
        deep = arco("doctor", "--deep", "--root", original, "--allow-location", declared)
        assert deep.returncode == 1
        assert f"table default.sales.orders: file://{newest}" in deep.stdout
    finally:
        newest.unlink(missing_ok=True)
        newest.write_bytes(right)
