"""Set-up on machines that are not like this one."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from arco.flow.spark.jars import SPARK_PACKAGE, VARIABLE

ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A PATH with nothing on it but what the scripts themselves need."""
    for name in ("sh", "dirname", "grep", "touch"):
        command = shutil.which(name)
        assert command is not None
        (tmp_path / name).symlink_to(command)
    return tmp_path


def _put(path: Path, name: str, script: str) -> None:
    (path / name).write_text(f"#!/bin/sh\n{script}\n")
    (path / name).chmod(0o755)


def _run(tool: str, *arguments: str, path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "tools" / tool, *arguments],
        env={"PATH": str(path)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_shim_without_a_python_behind_it_is_skipped(path: Path) -> None:
    _put(path, "python3.13", "echo 'python3.13: command not found' >&2; exit 127")
    _put(path, "python3.12", "exit 1")  # as one that is too old answers
    _put(path, "python3.11", f'exec {sys.executable} "$@"')

    run = _run("find_python", path=path)

    assert (run.returncode, run.stdout, run.stderr) == (0, "python3.11\n", "")


def test_without_a_python_it_says_which_one_to_install(path: Path) -> None:
    run = _run("find_python", path=path)

    assert run.returncode == 1
    assert "Python 3.11 or newer" in run.stderr
    assert run.stderr.count("\n") == 1


def test_a_python_without_venv_is_distinguished_from_a_missing_python(path: Path) -> None:
    _put(path, "python3", 'case "$2" in *ensurepip*) exit 1;; esac')

    run = _run("find_python", path=path)

    assert run.returncode == 1
    assert "python3-venv" in run.stderr


@pytest.mark.parametrize("version", ['17.0.15"', '21"', '24-ea" 2025-03-18'])
def test_a_java_that_is_new_enough_is_taken(path: Path, version: str) -> None:
    _put(path, "java", f"echo 'Picked up options' >&2; echo 'openjdk version \"{version}' >&2")

    run = _run("find_java", path=path)

    assert (run.returncode, run.stdout, run.stderr) == (0, "java\n", "")


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        (None, "there is none"),
        ("echo 'get one from the internet' >&2; exit 1", "there is none"),
        ("echo 'openjdk version \"1.8.0_292\"' >&2", "java is Java 8"),
        ("echo 'openjdk version \"11.0.2\" 2019-01-15' >&2", "java is Java 11"),
        ("echo hello", "java does not tell its version"),
    ],
)
def test_without_a_java_for_spark_it_says_what_to_install(
    path: Path, script: str | None, problem: str
) -> None:
    if script is not None:
        _put(path, "java", script)

    run = _run("find_java", path=path)

    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.startswith(f"Spark needs Java 17 or newer, and {problem}: install one")
    assert run.stderr.count("\n") == 1


def _environment(tmp_path: Path, pip: str) -> tuple[str, str]:
    """An environment whose pip is a script, and a list of forty packages for it."""
    (tmp_path / "env" / "bin").mkdir(parents=True)
    _put(tmp_path / "env" / "bin", "python", f'[ "$1" = -c ] && exit 0\n{pip}')
    packages = [f"package{number}==1 \\\n    --hash=sha256:0" for number in range(1, 41)]
    (tmp_path / "list.txt").write_text("\n".join(packages))
    return str(tmp_path / "env"), str(tmp_path / "list.txt")


def test_an_installation_of_minutes_says_how_far_it_is(path: Path, tmp_path: Path) -> None:
    lines = "\n".join(f"echo Collecting package{number}==1" for number in range(1, 41))

    run = _run("make_venv", *_environment(tmp_path, lines), path=path)

    assert run.returncode == 0
    assert "Installing the 40 packages of" in run.stdout
    assert "  20 of 40: package20==1\n  40 of 40: package40==1\n" in run.stdout


def test_an_installation_that_fails_is_reported(path: Path, tmp_path: Path) -> None:

    run = _run("make_venv", *_environment(tmp_path, "echo no such thing >&2; exit 3"), path=path)

    assert run.returncode == 1
    assert run.stderr == "no such thing\n"


def test_without_node_the_set_up_goes_on_and_says_what_will_be_skipped(
    path: Path, tmp_path: Path
) -> None:
    run = _run("install_azurite", str(tmp_path), path=path)

    assert run.returncode == 0
    assert "Azurite will be skipped" in run.stdout
    assert run.stdout.count("\n") == 1


def _fetch_jars(*arguments: str, **environment: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "tools" / "fetch_jars.py", *arguments],
        env={"PYTHONPATH": str(ROOT / "src")}
        | {name: str(value) for name, value in environment.items()},
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_the_jar_of_iceberg_the_set_up_stops_and_says_what_to_do(
    tmp_path: Path, path: Path
) -> None:
    _put(path, "mvn", "exit 1")  # as one that is offline

    run = _fetch_jars(PATH=path, XDG_CACHE_HOME=tmp_path / "cache")

    assert run.returncode == 1
    assert SPARK_PACKAGE in run.stderr
    assert "go online" in run.stderr
    assert VARIABLE in run.stderr
    assert run.stderr.count("\n") == 1


@pytest.mark.parametrize("missing", ["mvn", "java"])
def test_without_maven_or_java_it_says_which_tests_of_interop_will_be_skipped(
    path: Path, tmp_path: Path, missing: str
) -> None:
    for name in {"mvn", "java"} - {missing}:
        _put(path, name, "echo 'openjdk version \"17.0.1\"'")
    jar = tmp_path / "iceberg.jar"
    jar.touch()

    run = _fetch_jars("--interop", **{"PATH": path, VARIABLE: jar})

    assert run.returncode == 0
    assert "Java 17 and Maven" in run.stdout
    assert "Fetching" not in run.stdout  # the jar is named

    locked = _fetch_jars("--lock", **{"PATH": path, VARIABLE: jar})

    assert locked.returncode == 1
    assert "install both to lock" in locked.stderr


def test_a_named_jar_that_does_not_exist_is_reported_in_a_sentence(
    path: Path, tmp_path: Path
) -> None:
    run = _fetch_jars(**{"PATH": path, VARIABLE: tmp_path / "missing.jar"})

    assert run.returncode == 1
    assert "there is no such file" in run.stderr
    assert run.stderr.count("\n") == 1


def test_without_uv_the_lock_says_what_to_install(path: Path) -> None:
    run = _run("lock", path=path)

    assert run.returncode == 1
    assert "install" in run.stderr


def test_every_package_of_the_emulator_is_locked_by_its_hash_and_by_no_address() -> None:
    lock = json.loads((ROOT / "tests/azurite/package-lock.json").read_text())

    packages = {name: package for name, package in lock["packages"].items() if name}
    assert packages["node_modules/azurite"]["version"] == "3.35.0"
    assert [name for name, package in packages.items() if "integrity" not in package] == []
    assert [name for name, package in packages.items() if "resolved" in package] == []


@pytest.mark.parametrize("name", ["dev", "docs", "runtime"])
def test_every_python_package_is_locked_by_its_hash_and_by_no_address(name: str) -> None:
    text = (ROOT / f"requirements/{name}.txt").read_text()

    assert "http" not in re.sub(r"(?m)^\s*#.*$|^[a-z0-9.-]*http[a-z0-9.-]*==.*$", "", text)
    for entry in re.split(r"\n(?=[a-z])", text):
        assert "--hash=sha256:" in entry, entry


def test_make_alone_explains_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text()
    [phony] = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)

    run = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True)

    explained = re.findall(r"^  make ([a-z]+) +\S", run.stdout, re.MULTILINE)
    assert set(explained) == set(phony.split()) - {"azurite", "jars", "java"}
