"""Code that prints: its lines are the task's, and a document is alone on stdout."""

import json
from pathlib import Path

import pytest

from tests.cli.command import arco

_CODE = """
from threading import Thread
from arco import task

print("a module is loaded")

@task()
def chatty(ctx):
    print("from the task")
    thread = Thread(target=print, args=("from nobody",))
    thread.start()
    thread.join()
    ctx.log.info("logged")
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "arco.toml").write_text('name = "chatty"\n')
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "chatty.py").write_text(_CODE)
    return tmp_path


def test_what_a_task_prints_is_in_its_log_and_not_on_stdout(project: Path) -> None:
    ran = arco("run", "--root", "place", "--json", cwd=project)
    document = json.loads(ran.stdout)
    assert "from nobody" in ran.stderr
    logs = arco("logs", document["run_id"], "chatty", "--root", "place", cwd=project)
    assert logs.stdout == "from the task\nINFO logged\n"
    second_run = arco("run", "--root", "place", "--force", cwd=project)
    assert second_run.returncode == 0
    assert "from" not in second_run.stdout


@pytest.mark.parametrize("command", [("check",), ("plan", "--root", "place")])
def test_what_is_printed_while_a_project_is_loaded_goes_to_stderr(
    project: Path, command: tuple[str, ...]
) -> None:
    (project / "place" / ".arco").mkdir(parents=True)  # a store: `plan` creates none
    ran = arco(*command, "--json", cwd=project)
    assert json.loads(ran.stdout)
    assert "a module is loaded" in ran.stderr
