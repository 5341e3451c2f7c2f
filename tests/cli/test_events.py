"""`arco events send`: lines of a file into the ledger of a running Arco."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import ARCO
from tests.cli.serving import Served, serving
from tests.processes.spark_child import started


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("up") / "store") as up:
        yield up


def executions(served: Served) -> int:
    query = "SELECT count(*) FROM system.executions"
    return int(served.done("sql", query, "--fresh", "--root", str(served.root)).split()[-1])


def test_every_line_is_stored_once_however_many_there_are(served: Served, tmp_path: Path) -> None:
    before = executions(served)
    file = tmp_path / "events.ndjson"
    lines = [json.dumps(started(f"many-{number}")) for number in range(2_500)]
    file.write_text("\n\n".join(lines) + "\n")  # empty lines are passed over
    output = served.done("events", "send", str(file))
    assert output == "Stored 2,500 events; 0 had been sent before.\n"
    assert executions(served) == before + 2_500


def test_a_line_that_is_refused_is_named_and_the_others_are_stored(
    served: Served, tmp_path: Path
) -> None:
    before = executions(served)
    file = tmp_path / "events.ndjson"
    wrong = started("wrong") | {"event_type": "nonsense"}
    good = [json.dumps(started("first")), json.dumps(started("last"))]
    file.write_text("\n".join([good[0], "{not json", json.dumps(wrong), "[]", good[1]]))
    run = served.arco("events", "send", str(file))
    assert run.returncode == 1
    assert run.stdout == "Stored 2 events; 0 had been sent before.\n"
    assert "line 2 was refused: " in run.stderr
    assert "line 3 was refused: unknown event type 'nonsense'\n" in run.stderr
    assert "line 4 was refused: " in run.stderr
    assert run.stderr.endswith("3 lines were refused. Correct them, and send those alone.\n")
    assert executions(served) == before + 2


def test_a_batch_without_a_good_line_says_so_of_each(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "events.ndjson"
    wrong = json.dumps(started("wrong") | {"event_type": "nonsense"})
    file.write_text(f"{wrong}\n{wrong}\n")
    run = served.arco("events", "send", str(file))
    assert run.returncode == 1
    assert "line 1 was refused: nothing was stored; line 1: unknown event type" in run.stderr
    assert "line 2 was refused: every line of its batch was; see line 1" in run.stderr


def test_a_file_without_events_or_that_is_none_is_misuse(served: Served, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("\n\n")
    for file in (empty, tmp_path / "nowhere", tmp_path):
        assert served.arco("events", "send", str(file)).returncode == 2


def test_events_come_from_a_pipe_too(served: Served) -> None:
    run = subprocess.run(
        [ARCO, "events", "send", "-", "--url", served.url],
        input=json.dumps(started("piped")),
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == "Stored 1 events; 0 had been sent before.\n"
