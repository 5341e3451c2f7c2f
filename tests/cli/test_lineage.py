"""`arco lineage`: trees, drawings and documents of what was seen."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx2
import pytest

from arco.cli.lineage.tree import lines, print_tree, tree_of
from arco.core.json import decode
from arco.query.lineage.response import Lineage
from tests.cli.command import is_one_sentence
from tests.cli.serving import Served, serving

SEEN = "seen 2026-05-01T10:00:00Z"
ODD = 'odd "na;me" #1 [x] <b> \\ %% `é`'


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("lineage") / "store") as up:
        up.done("schema", "create", "s")
        for name, columns in {
            "raw": ("id bigint", "amount bigint", "status string"),
            "silver": ("id bigint", "amount bigint"),
            "gold": ("total bigint",),
            "other": ("x bigint",),
            "lonely": ("x bigint",),
        }.items():
            flags = [part for column in columns for part in ("--column", column)]
            up.done("table", "create", f"s.{name}", "--format", "parquet", *flags)
        _see(
            up,
            "raw",
            "silver",
            ("id", "id", "DIRECT"),
            ("amount", "amount", "CAST"),
            ("status", "*", "FILTER"),
        )
        _see(up, "silver", "gold", ("amount", "total", "AGGREGATE"))
        _see(up, "gold", "silver")
        _see(up, "silver", "other")
        _see(up, ODD, "raw")
        yield up


def _see(up: Served, source: str, target: str, *edges: tuple[str, str, str]) -> None:
    def dataset(name: str) -> dict[str, Any]:
        if name == ODD:
            return {"name": name}
        return {"table_id": _shown(up, name)["id"], "name": name}

    def side(which: str, name: str, column: str) -> dict[str, Any]:
        shown = _shown(up, name)
        ids = {each["name"]: each["id"] for each in shown["columns"]}
        fields = {f"{which}_table_id": shown["id"], f"{which}_name": column}
        return fields if column == "*" else {**fields, f"{which}_column_id": ids[column]}

    payload = {
        "execution_id": "run-7",
        "task_id": "load",
        "soundness": "exact" if edges else "table_only",
        "inputs": [dataset(source)],
        "outputs": [dataset(target)],
        "column_edges": [
            {**side("source", source, a), **side("target", target, b), "transformation_type": kind}
            for a, b, kind in edges
        ],
        "observed_at": "2026-05-01T10:00:00Z",
    }
    event = {
        "event_type": "lineage_observed",
        "event_version": 1,
        "occurred_at": "2026-05-01T10:00:00Z",
        "source": {"type": "test"},
        "payload": payload,
    }
    with httpx2.Client(base_url=up.url, trust_env=False) as http:
        answer = http.post("/api/v1/events", json=[event])
    assert answer.json()["accepted"] == 1, answer.text


def _shown(up: Served, name: str) -> dict[str, Any]:
    return up.document("table", "show", f"s.{name}")


def test_a_tree_shows_what_a_table_is_made_of_and_read_for(served: Served) -> None:
    assert served.done("lineage", "s.silver").splitlines() == [
        "default.s.silver",
        "├─ is made of",
        f"│  ├─ default.s.gold  [table_only; {SEEN}]",
        f"│  │  └─ default.s.silver (unfolded elsewhere)  [exact; 1 column edge; {SEEN}]",
        f"│  └─ default.s.raw  [exact; 3 column edges; {SEEN}]",
        f"│     └─ {ODD} (external)  [table_only; {SEEN}]",
        "└─ is read for",
        f"   ├─ default.s.gold  [exact; 1 column edge; {SEEN}]",
        f"   │  └─ default.s.silver (unfolded elsewhere)  [table_only; {SEEN}]",
        f"   └─ default.s.other  [table_only; {SEEN}]",
    ]


def test_columns_and_runs_hang_on_the_edge_that_they_are_of(served: Served) -> None:
    flags = ("--direction", "up", "--depth", "1", "--columns", "--runs")
    assert served.done("lineage", "default.s.gold", *flags).splitlines() == [
        "default.s.gold",
        "└─ is made of",
        f"   └─ default.s.silver  [exact; 1 column edge; {SEEN}]",
        "      ├─ amount -> total  AGGREGATE",
        "      └─ run run-7 task load  2026-05-01T10:00:00Z",
    ]
    filtered = served.done("lineage", "s.raw", "--direction", "down", "--depth", "1", "--columns")
    assert "status -> all columns  FILTER" in filtered


def test_json_calls_a_run_by_run_id(served: Served) -> None:
    document = served.document("lineage", "s.gold", "--direction", "up", "--depth", "1", "--runs")
    [edge] = document["edges"]
    assert edge["run_id"] == edge["runs"][0]["run_id"] == "run-7"
    assert "execution_id" not in json.dumps(document)


def test_a_terminal_gets_the_same_tree(served: Served) -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    with httpx2.Client(base_url=served.url, trust_env=False) as http:
        table_id = _shown(served, "silver")["id"]
        answer = http.get(f"/api/v1/lineage/{table_id}", params={"freshness": "fresh"})
    lineage = decode(answer.content, Lineage)
    with (
        redirect_stdout(Terminal()) as shown,
        patch.dict(os.environ, {"TERM": "xterm", "COLUMNS": "300"}),
    ):
        print_tree(tree_of(lineage))
    plain = re.sub(r"[\[\]]", "", "\n".join(lines(tree_of(lineage))))
    drawn = re.sub(r"\x1b\[[0-9;]*m|[\[\]]", "", shown.getvalue())
    words = [re.sub(r"[├└│─ ]", "", line) for line in drawn.splitlines()]
    assert words == [re.sub(r"[├└│─ ]", "", line) for line in plain.splitlines()]


def test_the_impact_of_a_column_is_listed_the_surest_first(served: Served) -> None:
    table = [
        re.split(r"  +", line)
        for line in served.done("lineage", "s.raw", "--impact", "amount").splitlines()
    ]
    assert table[0] == ["AFFECTED", "HOW", "STEPS", "BY"]
    assert table[1][:3] == ["default.s.silver.amount", "by its values", "1"]
    assert table[2] == [
        "default.s.gold.total",
        "by its values",
        "2",
        "CAST default.s.silver.amount -> AGGREGATE default.s.gold.total",
    ]
    others = {row[0]: row[1] for row in table[3:]}
    assert others == {
        "default.s.other.(all columns)": "perhaps, as tables do",
        "default.s.silver.(all columns)": "perhaps, as tables do",
    }
    assert "Nothing is known" in served.done("lineage", "s.lonely", "--impact", "x")


def test_a_table_of_which_nothing_was_seen_stands_alone(served: Served) -> None:
    first, second = served.done("lineage", "s.lonely").splitlines()
    assert first == "default.s.lonely"
    assert second.startswith("Nothing was seen")


def test_documents_are_those_of_the_api_and_have_the_same_bytes_again(served: Served) -> None:
    document = served.document("lineage", "s.silver", "--columns")
    assert len(document["edges"]) == 5
    for flags in (("--json",), ("--mermaid",), ("--dot",), (), ("--impact", "amount", "--dot")):
        assert served.done("lineage", "s.silver", *flags) == served.done(
            "lineage", "s.silver", *flags
        )
    by_id = served.document("lineage", "--id", document["table_id"], "--columns")
    assert by_id == document
    assert served.document("lineage", "--id", f"external:{ODD}")["nodes"][0]["name"] == ODD


def test_what_is_published_alone_has_nothing_of_the_ledger(served: Served) -> None:
    assert served.document("lineage", "s.silver", "--published")["edges"] == []


def test_mermaid_is_safe_from_any_name(served: Served) -> None:
    drawing = served.done("lineage", "s.raw", "--mermaid")
    assert drawing.startswith("flowchart LR\n")
    labels = re.findall(r'^  t\d+\["(.*)"\]$', drawing, re.MULTILINE)
    assert len(labels) == 5
    [odd] = [label for label in labels if label.startswith("odd")]
    assert not set('"<>[]`\\%') & set(odd)
    read = re.sub(r"#(\d+);", lambda escape: chr(int(escape[1])), odd)
    assert read == f"{ODD} (external)"
    assert len(re.findall(r"^  t\d+ --> t\d+$", drawing, re.MULTILINE)) == 5
    columns = served.done("lineage", "s.silver", "--columns", "--mermaid")
    assert '  subgraph t0["default.s.silver"]' in columns
    assert re.search(r'c\d+ -\.->\|"FILTER"\| c\d+', columns)
    assert '["(all columns)"]' in columns


def test_dot_is_safe_from_any_name(served: Served) -> None:
    for flags in ((), ("--columns",), ("--impact", "amount")):
        drawing = served.done("lineage", "s.raw", "--dot", *flags)
        assert drawing.startswith("digraph lineage {\n")
        assert drawing.endswith("}\n")
        bare = re.sub(r'"(\\.|[^"\\])*"', "TEXT", drawing)
        for line in bare.splitlines()[1:-1]:
            assert re.fullmatch(r"[ \w=\[\],;{}>-]+", line), line
    drawing = served.done("lineage", "s.raw", "--dot")
    texts = [json.loads(text) for text in re.findall(r'label=("(?:\\.|[^"\\])*")', drawing)]
    assert f"{ODD} (external)" in texts
    if shutil.which("dot"):
        subprocess.run(["dot", "-Tsvg"], input=drawing, text=True, check=True, capture_output=True)


@pytest.mark.parametrize(
    "arguments",
    [
        ("s.raw", "--json", "--dot"),
        ("s.raw", "--depth", "9"),
        ("s.raw", "--direction", "left"),
        ("s.raw", "--impact", "id", "--runs"),
        ("s.raw", "--impact", "id", "--direction", "up"),
        ("s.raw", "--id", "x"),
        ("raw",),
        (),
    ],
)
def test_what_cannot_be_asked_is_misuse(served: Served, arguments: tuple[str, ...]) -> None:
    run = served.arco("lineage", *arguments)
    assert (run.returncode, run.stdout) == (2, "")
    assert is_one_sentence(run.stderr)


def test_a_missing_table_or_column_is_reported_as_missing(served: Served) -> None:
    for arguments in (("s.nothing",), ("s.raw", "--impact", "nothing"), ("--id", "nothing")):
        run = served.arco("lineage", *arguments)
        assert run.returncode == 1
        assert is_one_sentence(run.stderr)
        assert "nothing" in run.stderr


def test_a_renamed_table_is_shown_by_its_new_name(tmp_path: Path) -> None:
    with serving(tmp_path / "store") as up:
        up.done("schema", "create", "s")
        for name in ("raw", "silver"):
            up.done("table", "create", f"s.{name}", "--format", "parquet", "--column", "x bigint")
        _see(up, "raw", "silver", ("x", "x", "DIRECT"))
        up.done("table", "rename", "s.raw", "s.bronze")
        assert "─ default.s.bronze " in up.done("lineage", "s.silver")
        up.done("table", "drop", "s.bronze")
        assert "─ default.s.bronze (dropped) " in up.done("lineage", "s.silver")
