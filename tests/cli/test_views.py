"""Views and Iceberg tables on the command line, against a running Arco."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.serving import Served, serving

QUERY = "SELECT order_id\nFROM orders"
COLUMN = ("--column", "order_id bigint not null")


@pytest.fixture(scope="module")
def arco(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("views") / "root", "--sample") as running:
        yield running


def test_the_sample_has_real_iceberg_tables(arco: Served) -> None:
    for name in ("orders", "customers"):
        table = arco.document("table", "show", f"sales.{name}")
        assert table["format"] == "ICEBERG"
        (first,) = arco.root.rglob(f"warehouse/{table['id']}/metadata/*.metadata.json")
        metadata = json.loads(first.read_text())
        assert metadata["table-uuid"] == table["id"]
        assert metadata["location"] == table["location"].rstrip("/")
        fields = metadata["schemas"][0]["fields"]
        assert [each["name"] for each in fields] == [each["name"] for each in table["columns"]]
    assert arco.document("table", "show", "sales.customers")["pii_columns"] == ["email"]


def test_a_column_is_marked_and_unmarked_as_personal(arco: Served) -> None:
    arco.done("table", "create", "sales.people", "--format", "iceberg", "--column", "mail string")
    flags = ("--pii", "EMAIL", "--sensitivity", "confidential")
    arco.done("column", "change", "sales.people", "mail", *flags)
    (column,) = arco.document("table", "show", "sales.people")["columns"]
    assert (column["pii_type"], column["sensitivity"]) == ("EMAIL", "CONFIDENTIAL")

    arco.done("column", "change", "sales.people", "mail", "--pii", "")
    assert arco.document("table", "show", "sales.people")["pii_columns"] == []


def test_an_iceberg_table_is_made_changed_dropped_and_brought_back(arco: Served) -> None:
    arco.done("table", "create", "sales.t", "--format", "iceberg", "--column", "id int not null")
    arco.done("column", "add", "sales.t", "amount decimal(10,2)")
    arco.done("column", "change", "sales.t", "id", "--type", "bigint", "--comment", "the number")
    arco.done("column", "change", "sales.t", "amount", "--rename", "total")
    shown = arco.done("table", "show", "sales.t")
    assert "1  id      bigint         not null                    the number" in shown
    arco.done("column", "drop", "sales.t", "total")
    arco.done("table", "rename", "sales.t", "raw.t")
    assert "`arco table undrop default.raw.t`" in arco.done("table", "drop", "raw.t")
    assert arco.done("table", "undrop", "raw.t") == "Brought back table default.raw.t.\n"
    columns = arco.document("table", "show", "raw.t")["columns"]
    assert [each["name"] for each in columns] == ["id"]
    files = list(arco.root.rglob("warehouse/*/metadata/00004-*.metadata.json"))
    assert len(files) == 1  # the four changes of columns made four commits


def test_a_view_is_made_shown_renamed_dropped_and_brought_back(arco: Served) -> None:
    made = arco.done("view", "create", "sales.v", "--sql", QUERY, *COLUMN, "--tag", "gold")
    assert made.startswith("Created view default.sales.v, id ")
    shown = arco.done("view", "show", "sales.v")
    assert "query in spark:\n  SELECT order_id\n  FROM orders\n" in shown
    assert "type      view" in shown
    for listed in (arco.done("view", "list"), arco.done("view", "list", "sales")):
        heading, *lines = listed.splitlines()
        [line] = [each for each in lines if "sales.v " in each]  # other tests have made theirs
        assert heading.split() == ["VIEW", "FORMAT", "TYPE", "OWNER", "UPDATED", "COMMENT"]
        assert line.split()[:3] == ["default.sales.v", "ICEBERG", "view"]
    assert "default.sales.v" in arco.done("table", "list", "sales")
    renamed = arco.done("view", "rename", "sales.v", "raw.w")
    assert renamed == "Renamed view default.sales.v to default.raw.w.\n"
    assert "`arco view undrop default.raw.w`" in arco.done("view", "drop", "raw.w")
    assert "w" not in [each["name"] for each in arco.items("view", "list")]
    assert "w" in [each["name"] for each in arco.items("view", "list", "raw", "--dropped")]
    assert arco.done("view", "undrop", "raw.w") == "Brought back view default.raw.w.\n"
    (query,) = arco.document("view", "show", "raw.w")["representations"]
    assert query == {"sql": QUERY, "dialect": "spark"}


def test_a_query_may_come_from_a_file(arco: Served, tmp_path: Path) -> None:
    file = tmp_path / "view.sql"
    file.write_text(QUERY)
    flags = ("--sql-file", str(file), "--dialect", "trino")
    made = arco.document("view", "create", "sales.filed", *flags, *COLUMN)
    assert made["representations"] == [{"sql": QUERY, "dialect": "trino"}]
    for wrong in ((), ("--sql", QUERY, "--sql-file", str(file)), ("--sql-file", "none.sql")):
        run = arco.arco("view", "create", "sales.odd", *wrong, *COLUMN)
        assert (run.returncode, run.stdout) == (2, "")


def test_a_table_is_no_view(arco: Served) -> None:
    run = arco.arco("view", "show", "sales.orders")
    assert run.returncode == 1
    assert "there is no view 'orders'" in run.stderr
    assert arco.arco("view", "drop", "sales.orders").returncode == 1
    assert arco.arco("view", "show", "lonely").returncode == 2
