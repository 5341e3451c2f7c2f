"""The example of docs/client.md does what it says."""

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.api.events import ledger
from tests.api.server import served

PAGE = Path(__file__).parents[2] / "docs" / "client.md"


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_the_example_in_python_delivers_all_it_tells(tmp_path: Path) -> None:
    [example] = _blocks("python")
    with served(tmp_path / "store") as api:
        script = tmp_path / "example.py"
        script.write_text(example.replace("http://127.0.0.1:8181", api.url))
        told = subprocess.run(
            [sys.executable, str(script)], check=True, timeout=60, capture_output=True, text=True
        )
        events = [event.event_type for event in ledger(api)]
    assert told.stdout == ("7 events acknowledged, 0 refused, 0 dropped, 0 not acknowledged\n")
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
