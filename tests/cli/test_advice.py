"""The sentence of a server that is ready: what it advises works as it is printed."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from arco.cli.serve import ready_message
from arco.server.listener import Auth, ListenSettings
from arco.server.workspace_address import KEY_FILE, WorkspaceAddress
from tests.cli.command import ARCO
from tests.cli.serving import serving

HERE = "http://127.0.0.1:8181"


def advised(place: WorkspaceAddress, listening: ListenSettings, url: str = HERE) -> list[str]:
    """The commands in the sentence."""
    return re.findall(r"`([^`]*)`", ready_message(place, listening)(url))


def test_on_the_default_place_the_plain_commands_do() -> None:
    steps = advised(WorkspaceAddress(), ListenSettings())
    assert steps == ["arco catalog list", "arco sql 'SHOW TABLES'"]


def test_another_port_is_named() -> None:
    url = "http://127.0.0.1:9000"
    assert (
        advised(WorkspaceAddress(), ListenSettings(port=9000), url)[0]
        == f"arco catalog list --url {url}"
    )


def test_a_server_that_listens_everywhere_is_asked_on_this_machine() -> None:
    listening = ListenSettings(host="0.0.0.0", auth=Auth.LOCAL)
    steps = advised(WorkspaceAddress(), listening, "http://0.0.0.0:8181")
    assert "arco catalog list" in steps


def test_another_place_is_named_from_any_directory(tmp_path: Path) -> None:
    place = WorkspaceAddress(root=str(tmp_path / "my {store}"), tenant="acme")
    words = shlex.split(advised(place, ListenSettings())[1])
    assert words[3:] == ["--root", str(tmp_path / "my {store}"), "--tenant", "acme"]
    bucket = WorkspaceAddress(store="s3://lake/arco?region=eu-west-1")
    words = shlex.split(advised(bucket, ListenSettings())[1])
    assert words[3:] == ["--store", "s3://lake/arco?region=eu-west-1"]


def test_memory_is_not_asked_from_elsewhere() -> None:
    assert advised(WorkspaceAddress(store="memory://"), ListenSettings()) == ["arco catalog list"]


def test_with_tokens_the_first_step_is_to_mint_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_FILE, "/etc/arco/key")
    steps = advised(WorkspaceAddress(store="s3://lake"), ListenSettings(auth=Auth.LOCAL))
    minting = "ARCO_SIGNING_KEY_FILE=/etc/arco/key arco token mint user:me --store s3://lake"
    assert steps[0] == f"export ARCO_TOKEN=$({minting})"


def test_the_sample_has_runs_to_ask_for(tmp_path: Path) -> None:
    with serving(tmp_path / "store", "--sample") as served:
        asked = served.advice()[-1]
        typed = subprocess.run(
            ["sh", "-ec", asked],
            capture_output=True,
            text=True,
            check=True,
            env={"PATH": f"{ARCO.parent}:{os.defpath}"},
        )
    assert "system.executions" in asked
    runs = [line.split() for line in typed.stdout.splitlines()[1:]]
    assert sorted(runs) == [["sample-1", "SUCCESS", "44000"], ["sample-2", "FAILED", "39000"]]


def test_what_a_running_arco_advises_works(tmp_path: Path) -> None:
    root = tmp_path / "a store {x}"
    with serving(root, "--auth", "local") as served:
        steps = served.advice()
        typed = subprocess.run(
            ["sh", "-ec", "\n".join(steps)],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env={"PATH": f"{ARCO.parent}:{os.defpath}"},
        )
    assert len(steps) == 3
    assert (typed.returncode, typed.stderr) == (0, "")
    assert "default" in typed.stdout  # the catalog
    assert "columns" in typed.stdout  # one of the tables of SQL
