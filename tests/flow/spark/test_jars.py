"""Where the jar of Iceberg comes from."""

import hashlib
import stat
from pathlib import Path

import pytest

from arco.core.errors import Unsupported
from arco.flow.spark import jars
from arco.flow.spark.jars import SPARK_PACKAGE, VARIABLE, iceberg_jars

NAME = "iceberg-spark-runtime-4.1_2.13-1.11.0.jar"


@pytest.fixture
def right(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """The content that counts as the jar."""
    content = b"a jar"
    monkeypatch.setattr(jars, "SPARK_SHA256", hashlib.sha256(content).hexdigest())
    return content


def maven(folder: Path, writes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Maven that puts `writes` where it is asked to put a jar."""
    command = folder / "bin" / "mvn"
    command.parent.mkdir()
    command.write_text(
        "#!/bin/sh\nfor each; do case $each in\n"
        f"-DoutputDirectory=*) printf '{writes}' >\"${{each#*=}}/{NAME}\" ;;\nesac; done\n"
    )
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{command.parent}:/usr/bin:/bin")


def test_a_jar_that_is_named_is_taken(tmp_path: Path) -> None:
    jar = tmp_path / "mine.jar"
    jar.write_bytes(b"whatever")
    assert iceberg_jars({VARIABLE: str(jar)}, tmp_path).settings() == {"spark.jars": str(jar)}
    with pytest.raises(Unsupported, match="there is no such file"):
        iceberg_jars({VARIABLE: str(tmp_path / "none.jar")}, tmp_path)


def test_a_jar_that_is_kept_is_checked(
    tmp_path: Path, right: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    kept = tmp_path / "arco" / "jars" / NAME
    kept.parent.mkdir(parents=True)
    kept.write_bytes(right)
    assert iceberg_jars({"XDG_CACHE_HOME": str(tmp_path)}).path == kept
    kept.write_bytes(b"another")
    assert iceberg_jars({"XDG_CACHE_HOME": str(tmp_path)}).settings() == {
        "spark.jars.packages": SPARK_PACKAGE
    }


def test_maven_fetches_it_once(
    tmp_path: Path, right: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    maven(tmp_path, right.decode(), monkeypatch)
    cache = tmp_path / "cache"
    assert iceberg_jars({}, cache).path == cache / NAME
    assert [each.name for each in cache.iterdir()] == [NAME]
    monkeypatch.setenv("PATH", "/nowhere")
    assert iceberg_jars({}, cache).path == cache / NAME


def test_what_maven_brings_is_checked(
    tmp_path: Path, right: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    maven(tmp_path, "something else", monkeypatch)
    assert iceberg_jars({}, tmp_path / "cache").package == SPARK_PACKAGE
    assert list((tmp_path / "cache").iterdir()) == []
