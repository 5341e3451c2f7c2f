"""A Java that Spark cannot use is reported in one sentence, with what to do."""

import stat
from pathlib import Path

import pytest

from arco.core.errors import Unsupported
from arco.core.java import WITHOUT_SPARK, check_java

ADVICE = "install Java 17 or newer and set JAVA_HOME, or go on without Spark (--no-spark)"


def fake_java(home: Path, says: str, code: int = 0) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{says}\nEND\nexit {code}\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    return java


@pytest.mark.parametrize("version", ["17", "17.0.15", "21.0.2-ea", "25"])
def test_java_17_and_newer_is_accepted(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path, f'openjdk version "{version}" 2025-04-15')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    check_java(WITHOUT_SPARK)


@pytest.mark.parametrize(("version", "is_java"), [("1.8.0_402", 8), ("11.0.22", 11), ("16", 16)])
def test_an_older_java_is_rejected_with_its_version(
    version: str, is_java: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = fake_java(tmp_path, f'java version "{version}"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(Unsupported) as met:
        check_java(WITHOUT_SPARK)
    assert str(met.value) == f"Spark needs Java 17, and {java} is Java {is_java}: {ADVICE}"


def test_java_is_found_in_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = fake_java(tmp_path, 'java version "11"')
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{java.parent}:/usr/bin:/bin")
    with pytest.raises(Unsupported, match="is Java 11"):
        check_java(WITHOUT_SPARK)


def test_a_missing_java_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unsupported) as met:
        check_java(WITHOUT_SPARK)
    assert str(met.value) == f"Spark needs Java, and there is none: {ADVICE}"


def test_a_java_home_without_java_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(Unsupported, match=r"JAVA_HOME has no .*/bin/java"):
        check_java(WITHOUT_SPARK)


@pytest.mark.parametrize(("says", "code"), [("no such thing", 1), ("hello", 0)])
def test_a_java_that_does_not_run_is_reported(
    says: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path, says, code)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(Unsupported, match=r"does not start|does not print its version"):
        check_java(WITHOUT_SPARK)
