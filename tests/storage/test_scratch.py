import errno
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from arco.core.runtime import Runtime
from arco.storage.local import LocalBackend
from arco.storage.scratch import open_unnamed, scratch_name

HOST = quote(socket.gethostname(), safe="")


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    scratch = tmp_path / ".arco/scratch"
    scratch.mkdir(parents=True)
    return scratch


@pytest.fixture
def living() -> Iterator[int]:
    """The id of another process, which lives as long as the test."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process.pid
        process.kill()


@pytest.fixture
def dead() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def started(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


def left_after_start(scratch: Path, runtime: Runtime, *names: str) -> tuple[set[str], int]:
    for name in names:
        (scratch / name).write_bytes(b"half a body")
    backend = LocalBackend(scratch.parent.parent, runtime)
    return {path.name for path in scratch.iterdir()}, backend.swept


def test_what_a_dead_process_left_is_swept(scratch: Path, runtime: Runtime, dead: int) -> None:
    names = (f"{HOST}~{dead}~123~1-1", f"{HOST}~{dead}~124~1-2")
    assert left_after_start(scratch, runtime, *names) == (set(), 2)


def test_what_belongs_to_a_living_process_stays(
    scratch: Path, runtime: Runtime, living: int
) -> None:
    names = {f"{HOST}~{living}~{started(living)}~1-1", scratch_name()}
    assert left_after_start(scratch, runtime, *names) == (names, 0)


def test_what_an_earlier_process_of_the_same_number_left_is_swept(
    scratch: Path, runtime: Runtime, living: int
) -> None:
    assert left_after_start(scratch, runtime, f"{HOST}~{living}~1~1-1") == (set(), 1)


def test_what_another_host_left_stays(scratch: Path, runtime: Runtime, dead: int) -> None:
    names = {f"other.example~{dead}~123~1-1", f"{HOST}x~{dead}~123~1-1"}
    assert left_after_start(scratch, runtime, *names) == (names, 0)


@pytest.mark.parametrize(
    "name", ["README", "~~~", f"{HOST}~", f"{HOST}~x~1~1", f"{HOST}~²~1~1", "-1~"]
)
def test_what_is_not_a_scratch_file_stays(scratch: Path, runtime: Runtime, name: str) -> None:
    assert left_after_start(scratch, runtime, name) == ({name}, 0)


def test_a_process_that_dies_while_it_is_looked_at_is_dead(
    scratch: Path, runtime: Runtime, dead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Path.read_text

    def vanish(path: Path, *args: Any, **more: Any) -> str:
        if str(dead) in path.parts:
            raise ProcessLookupError(errno.ESRCH, "No such process")
        return read(path, *args, **more)

    monkeypatch.setattr(Path, "read_text", vanish)
    assert left_after_start(scratch, runtime, f"{HOST}~{dead}~123~1-1") == (set(), 1)


def test_where_there_is_no_proc_a_process_counts_as_living_while_it_answers(
    scratch: Path, runtime: Runtime, living: int, dead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, exists = Path.read_text, Path.exists

    def without_proc(path: Path, *args: Any, **more: Any) -> str:
        if path.name == "stat":
            raise FileNotFoundError(path)
        return read(path, *args, **more)

    monkeypatch.setattr(Path, "read_text", without_proc)
    monkeypatch.setattr(Path, "exists", lambda path: "proc" not in path.parts and exists(path))
    mine, theirs = scratch_name(), f"{HOST}~{living}~alive~1-1"
    assert f"~{os.getpid()}~alive~" in mine
    dead_name = f"{HOST}~{dead}~alive~1-1"
    assert left_after_start(scratch, runtime, mine, theirs, dead_name) == ({mine, theirs}, 1)


def test_a_name_holds_host_process_and_start_and_is_never_given_twice() -> None:
    shape = rf"{re.escape(HOST)}~{os.getpid()}~{started(os.getpid())}~\d+-\d+\Z"
    names = [scratch_name() for _ in range(1_000)]
    assert all(re.match(shape, name) for name in names)
    assert len(set(names)) == 1_000


def test_two_processes_never_use_one_name() -> None:
    command = "from arco.storage.scratch import scratch_name; print(scratch_name())"
    other = subprocess.run([sys.executable, "-c", command], capture_output=True, check=True)
    assert other.stdout.decode().strip().split("~")[:3] != scratch_name().split("~")[:3]


def test_the_fallback_is_taken_where_the_file_system_has_no_unnamed_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = os.open(tmp_path, os.O_RDONLY)
    opened = open_unnamed(directory)
    assert opened is not None
    os.close(opened)

    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "open", refuse)
    assert open_unnamed(directory) is None
    monkeypatch.undo()
    monkeypatch.delattr(os, "O_TMPFILE")
    assert open_unnamed(directory) is None
    os.close(directory)


async def test_a_hint_and_a_named_create_leave_no_scratch_behind(
    scratch: Path, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "O_TMPFILE")
    backend = LocalBackend(scratch.parent.parent, runtime)
    await backend.create("a/x", b"1")
    await backend.put("a/head.json", b"2")
    assert list(scratch.iterdir()) == []
