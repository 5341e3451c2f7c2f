"""The commands about catalogs, schemas, tables and columns, against `arco up`."""

import json
import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli import command
from tests.cli.command import is_one_sentence
from tests.cli.serving import Served, serving


@pytest.fixture(scope="module")
def arco(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    root = tmp_path_factory.mktemp("up") / "store"
    with serving(root, "--allow-location", f"file://{root.parent}/outside") as served:
        yield served


def test_a_table_is_created_with_all_that_was_declared(arco: Served) -> None:
    arco.done("schema", "create", "sales")
    output = arco.done(
        *("table", "create", "sales.orders", "--format", "parquet", "--owner", "group:sales"),
        *(
            "--column",
            "id bigint not null",
            "--column",
            "email string",
            "--comment",
            "What was sold",
        ),
        *("--property", "team=sales", "--property", "url=a=b", "--tag", "gold", "--tag", "eu"),
    )

    table = arco.document("table", "show", "sales.orders")
    assert output == f"Created table default.sales.orders, id {table['id']}.\n"
    assert table["full_name"] == "default.sales.orders"
    assert table["properties"] == {"team": "sales", "url": "a=b"}
    assert table["tags"] == ["gold", "eu"]
    assert (table["owner"], table["comment"]) == ("group:sales", "What was sold")
    assert (table["format"], table["table_type"]) == ("PARQUET", "MANAGED")
    assert [(each["name"], each["data_type"], each["nullable"]) for each in table["columns"]] == [
        ("id", "bigint", False),
        ("email", "string", True),
    ]
    shown = arco.done("table", "show", "sales.orders")
    for word in (
        "default.sales.orders",
        "team=sales",
        "gold, eu",
        "email",
        "not null",
        table["id"],
    ):
        assert word in shown


def test_names_with_dots_blanks_and_slashes_go_there_and_back(arco: Served) -> None:
    arco.done("catalog", "create", "Über 1")
    arco.done("schema", "create", 'Über 1."v1.2"')
    arco.done("schema", "create", "eu", "--catalog", "Über 1")
    created = arco.document("table", "create", 'Über 1."v1.2"."a ""b"""', "--format", "csv")
    arco.done("column", "add", created["full_name"], '"x/y z" int', "n double not null")
    arco.done("column", "drop", created["full_name"], "x/y z")

    assert created["full_name"] == 'Über 1."v1.2"."a ""b"""'
    assert (created["schema"], created["name"]) == (["v1.2"], 'a "b"')
    listed = arco.items("schema", "list", "Über 1")
    assert [each["name"] for each in listed] == ["eu", "v1.2"]
    table = arco.document("table", "show", created["full_name"])
    assert [each["name"] for each in table["columns"]] == ["n"]


def test_a_table_moves_to_another_catalog_and_a_schema_stays_where_it_is(arco: Served) -> None:
    arco.done("catalog", "create", "move")
    arco.done("schema", "create", "move.raw")
    arco.done("schema", "create", "move.raw.eu")
    table = arco.document("table", "create", "move.raw.eu.t", "--format", "json")
    arco.done("schema", "create", "archive")

    output = arco.done("table", "rename", "move.raw.eu.t", "archive.t2")
    back = arco.document("table", "rename", "default.archive.t2", "move.raw.t2")
    refused = arco.arco("schema", "rename", "move.raw", "archive.raw")
    renamed = arco.document("schema", "rename", "move.raw", "move.bronze")

    assert output == "Renamed table move.raw.eu.t to default.archive.t2.\n"
    assert (back["full_name"], back["id"]) == ("move.raw.t2", table["id"])
    assert refused.returncode == 2
    assert is_one_sentence(refused.stderr)
    assert renamed["full_name"] == "move.bronze"
    tables = arco.items("table", "list", "--catalog", "move")
    assert [each["full_name"] for each in tables] == ["move.bronze.t2"]


def test_what_was_dropped_last_under_a_name_comes_back(arco: Served) -> None:
    arco.done("schema", "create", "gone")
    ids = []
    for _ in range(2):
        ids.append(arco.document("table", "create", "gone.t", "--format", "csv")["id"])
        assert arco.done("table", "drop", "gone.t") == (
            "Dropped table default.gone.t. `arco table undrop default.gone.t` brings it back.\n"
        )

    dropped = arco.items("table", "list", "gone", "--dropped")
    last = arco.document("table", "undrop", "gone.t")
    first = arco.document("table", "undrop", "--id", ids[0], "--as", "t_old")

    assert {each["id"] for each in dropped} == set(ids)
    assert (last["id"], last["name"]) == (ids[1], "t")
    assert (first["id"], first["name"]) == (ids[0], "t_old")
    assert arco.items("table", "list", "gone", "--dropped") == []
    nothing = arco.arco("table", "undrop", "gone.never")
    assert nothing.returncode == 1
    assert "arco table list default.gone --dropped" in nothing.stderr
    wrong_kind = arco.arco("catalog", "undrop", "--id", ids[0])
    assert wrong_kind.returncode == 2
    assert "arco table undrop" in wrong_kind.stderr


def test_a_container_with_something_in_it_is_dropped_only_by_force(arco: Served) -> None:
    arco.done("catalog", "create", "full")
    arco.done("schema", "create", "full.raw")

    refused = arco.arco("catalog", "drop", "full")
    forced = arco.document("catalog", "drop", "full", "--force")

    assert refused.returncode == 1
    assert is_one_sentence(refused.stderr)
    assert refused.stderr.endswith("or add --force to drop it all.\n")
    assert forced == {"dropped": "full", "kind": "CATALOG"}
    arco.done("catalog", "undrop", "full", "--as", "full2")
    assert arco.document("schema", "show", "full2.raw")["full_name"] == "full2.raw"


def test_the_past_can_be_shown_listed_and_compared(arco: Served) -> None:
    arco.done("catalog", "create", "past")
    arco.done("schema", "create", "past.raw")
    start = str(arco.document("table", "create", "past.raw.t", "--format", "csv")["commit"])
    arco.done("column", "add", "past.raw.t", "a int")
    changed = arco.document("column", "change", "past.raw.t", "a", "--type", "bigint")
    arco.done("table", "rename", "past.raw.t", "past.raw.u")

    assert changed["data_type"] == "bigint"
    assert arco.document("table", "show", "past.raw.t", "--as-of", start)["columns"] == []
    assert arco.arco("table", "show", "past.raw.t").returncode == 1
    versions = arco.items("table", "history", "past.raw.u")
    assert [each["operation"] for each in versions] == [
        "update_table",
        "update_column",
        "add_column",
        "create_table",
    ]
    history_lines = arco.done("table", "history", "past.raw.u").splitlines()
    assert history_lines[0].split() == ["VERSION", "WHEN", "WHO", "WHAT", "CHANGED"]
    assert history_lines[1].split()[2:] == ["user:local", "update_table", "name"]
    assert history_lines[-1].split()[0] == start
    by_old_name = arco.items("table", "diff", "past.raw.t", "--from", start)
    by_schema = arco.items("schema", "diff", "past.raw", "--from", start)
    assert [(each["change"], each["name"]) for each in by_old_name] == [("updated", "past.raw.u")]
    assert by_schema == by_old_name
    assert arco.items("schema", "diff", "--from", start) == []
    lines = arco.done("table", "diff", "--from", start).splitlines()
    assert 'name: "t" -> "u"' in lines[1]
    assert 'columns: [] -> ["a bigint"]' in lines[1]


def test_a_list_in_a_pipe_is_aligned_and_whole(arco: Served) -> None:
    comment = "word " * 60 + "\nand a second line"
    arco.done("catalog", "create", "wide")
    arco.done("schema", "create", "wide.s", "--comment", comment)
    arco.done("schema", "create", "wide." + "n" * 100)

    lines = arco.done("schema", "list", "wide").splitlines()

    assert len(lines) == 3
    assert lines[0].index("OWNER") == lines[1].index("user:local") == lines[2].index("user:local")
    assert lines[1].startswith("wide." + "n" * 100)
    assert lines[2].endswith("word \\nand a second line")


def test_a_list_on_a_terminal_is_a_table(arco: Served) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [command.ARCO, "catalog", "list", "--url", arco.url],
        stdout=theirs,
        stderr=subprocess.PIPE,
        env={**os.environ, "COLUMNS": "100", "TERM": "xterm"},
    ):
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(ours, 4096):
                shown += part
        except OSError:  # how a terminal says that its other side is closed
            pass
    os.close(ours)

    assert "─────" in shown.decode()
    assert "default" in shown.decode()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("table", "show", "no.such"), 1),
        (("table", "show", "orders"), 2),
        (("table", "create", "no.such", "--format", "csv"), 1),
        (("table", "create", "no.such", "--format", "orc"), 2),
        (("table", "create", "a.b"), 2),
        (("table", "create", "a.b", "--format", "csv", "--column", "id"), 2),
        (("catalog", "create", "default"), 1),
        (("catalog", "create", "a/b"), 2),
        (("catalog", "create", "a", "--property", "x"), 2),
        (("catalog", "rename", "default", "default"), 2),
        (("catalog", "show", "default", "--as-of", "yesterday"), 2),
        (("catalog", "show", "default", "--as-of", "999999"), 1),
        (("catalog", "undrop"), 2),
        (("catalog", "diff"), 2),
        (("column", "add", "sales.orders"), 2),
        (("column", "change", "sales.orders", "id"), 2),
        (("catalog", "list", "--url", "ftp://x"), 2),
        (("catalog", "list", "--url", "http://u:secret@127.0.0.1"), 2),
        (("catalog", "list", "--token-file", "/no/such/file"), 2),
    ],
)
def test_what_goes_wrong_is_one_sentence(
    arguments: tuple[str, ...], code: int, arco: Served
) -> None:
    run = arco.arco(*arguments)

    assert run.returncode == code, run
    assert run.stdout == ""
    assert is_one_sentence(run.stderr), run.stderr
    assert "secret" not in run.stderr


def test_a_variable_never_names_what_is_to_be_dropped(arco: Served) -> None:
    arco.done("catalog", "create", "kept")

    run = arco.arco("catalog", "drop", ARCO_NAME="kept")

    assert run.returncode == 2
    assert arco.document("catalog", "show", "kept")["name"] == "kept"


def test_columns_may_come_from_a_file_and_a_place_from_outside(
    arco: Served, tmp_path: Path
) -> None:
    file = tmp_path / "columns.json"
    column = {"name": "email", "data_type": "string", "pii_type": "email"}
    file.write_text(json.dumps([column]))
    arco.done("schema", "create", "outside")

    place = f"file://{arco.root.parent}/outside/t"
    create = ("table", "create", "outside.t", "--format", "delta", "--columns-file", str(file))
    refused = arco.arco(*create, "--location", "s3://lake/outside/t")
    assert refused.returncode == 2
    assert "--allow-location" in refused.stderr
    table = arco.document(*create, "--location", place)

    assert (table["table_type"], table["location"]) == ("EXTERNAL", f"{place}/")
    assert table["pii_columns"] == ["email"]


@pytest.mark.parametrize("kind", ["catalog", "schema", "table", "column"])
def test_help_gives_an_example_for_every_verb(kind: str) -> None:
    shown = command.arco(kind, "--help").stdout

    verbs = {"create", "list", "show", "rename", "drop", "undrop", "history", "diff"}
    for verb in {"add", "change", "drop"} if kind == "column" else verbs:
        assert f"  arco {kind} {verb} " in shown or f"  arco {kind} {verb}\n" in shown
    assert command.arco(kind, "drop", "--help").stdout.count("Examples:") == 1


def test_a_dropped_default_catalog_stays_away_until_it_is_brought_back(tmp_path: Path) -> None:
    with serving(tmp_path / "store") as first:
        first.done("schema", "create", "sales")
        first.done("catalog", "drop", "default", "--force")
    with serving(tmp_path / "store") as second:
        assert second.items("catalog", "list") == []
        assert "there is no catalog 'default'" in second.arco("schema", "list").stderr
        second.done("catalog", "undrop", "default")
        assert [each["name"] for each in second.items("schema", "list")] == ["sales"]


def test_an_invalid_request_points_at_the_help_of_the_command(arco: Served) -> None:
    run = arco.arco("view", "create", "sales.empty", "--sql", "select 1")
    assert run.returncode == 2
    assert "Change the request" not in run.stderr
    assert "See `arco view create --help`." in run.stderr
