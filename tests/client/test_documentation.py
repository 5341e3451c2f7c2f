"""The examples of docs/how-to/report-events.md and script-with-python.md do what they say."""

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.api.events import ledger
from tests.api.server import served
from tests.cli.serving import serving

DOCS = Path(__file__).parents[2] / "docs" / "how-to"
URL = "http://127.0.0.1:8181"


def _blocks(language: str, page: str = "report-events.md") -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


def _run(script: Path, text: str) -> str:
    script.write_text(text)
    run = subprocess.run(
        [sys.executable, str(script)],
        check=False,
        timeout=60,
        capture_output=True,
        text=True,
        cwd=script.parent,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_the_example_in_python_delivers_all_it_sends(tmp_path: Path) -> None:
    [example] = _blocks("python")
    with served(tmp_path / "store") as api:
        printed = _run(tmp_path / "example.py", example.replace(URL, api.url))
        events = [event.event_type for event in ledger(api)]
    assert printed == ("7 events acknowledged, 0 refused, 0 dropped, 0 not acknowledged\n")
    assert events[0] == "execution_started"
    assert len(events) == 7


def test_the_example_of_curl_is_answered_as_it_says(tmp_path: Path) -> None:
    [example] = _blocks("console")
    body = json.loads(re.findall(r"-d '(.*?)'", example, re.DOTALL)[0])
    shown = json.loads(example.strip().splitlines()[-1])
    with served(tmp_path / "store") as api, api.client() as http:
        answer = http.post("/api/v1/events", json=body)
    assert answer.status_code == 200
    assert {**answer.json(), "event_ids": shown["event_ids"]} == shown
    assert len(shown["event_ids"][0]) == len(answer.json()["event_ids"][0])


def test_the_examples_of_the_client_run_one_after_the_other(tmp_path: Path) -> None:
    *examples, _ = _blocks("python", "script-with-python.md")
    with serving(tmp_path / "store") as up:
        printed = _run(tmp_path / "example.py", "\n".join(examples).replace(URL, up.url))
    assert printed.startswith("lake.raw.orders file:///")
    for line in ("2 columns then, 3 now", "orders_2026 PARQUET", "1 ()", "RUNNING"):
        assert f"{line}\n" in printed


def test_the_example_without_a_server_writes_a_chain_and_a_stream(tmp_path: Path) -> None:
    *_, example = _blocks("python", "script-with-python.md")
    script = tmp_path / "example.py"
    assert _run(script, example).startswith("chain, number 0 ")
    assert _run(script, example).startswith("chain, number 1 ")
