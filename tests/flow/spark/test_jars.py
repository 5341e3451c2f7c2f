"""Where the jars of Iceberg and of S3 come from."""

import hashlib
import stat
from pathlib import Path

import pytest

from arco.core.errors import Unsupported
from arco.flow.spark import jars
from arco.flow.spark.jars import (
    S3,
    S3_VARIABLE,
    SPARK_PACKAGE,
    VARIABLE,
    Artifact,
    Jars,
    iceberg_jars,
    s3_jars,
)

NAME = "iceberg-spark-runtime-4.1_2.13-1.11.0.jar"


@pytest.fixture
def right(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """The content that counts as the jar."""
    content = b"a jar"
    monkeypatch.delenv("JAVA_HOME", raising=False)
    digest = hashlib.sha256(content).hexdigest()
    monkeypatch.setattr(jars, "ICEBERG", Artifact(SPARK_PACKAGE, digest))
    monkeypatch.setattr(jars, "S3", tuple(Artifact(each.package, digest) for each in S3))
    return content


def maven(folder: Path, writes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Maven that puts `writes` where it is asked to put a jar."""
    command = folder / "bin" / "mvn"
    command.parent.mkdir()
    command.write_text(
        "#!/bin/sh\nfor each; do case $each in\n"
        "-Dartifact=*) name=${each#*=} && name=${name#*:} ;;\n"
        f"-DoutputDirectory=*) printf '{writes}' >\"${{each#*=}}/${{name%:*}}-${{name##*:}}.jar\" ;;\n"
        "esac; done\n"
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
    assert iceberg_jars({"XDG_CACHE_HOME": str(tmp_path)}).paths == (kept,)
    kept.write_bytes(b"another")
    assert iceberg_jars({"XDG_CACHE_HOME": str(tmp_path)}).settings() == {
        "spark.jars.packages": SPARK_PACKAGE
    }


def test_maven_fetches_it_once(
    tmp_path: Path, right: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    maven(tmp_path, right.decode(), monkeypatch)
    cache = tmp_path / "cache"
    assert iceberg_jars({}, cache).paths == (cache / NAME,)
    assert [each.name for each in cache.iterdir()] == [NAME]
    monkeypatch.setenv("PATH", "/nowhere")
    assert iceberg_jars({}, cache).paths == (cache / NAME,)


def test_without_maven_the_ivy_of_spark_fetches_it(
    tmp_path: Path, right: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        "#!/bin/sh\n"
        "[ $1 = -version ] && echo 'openjdk version \"17.0.1\"' && exit\n"
        'echo "$@" >"${0%/*}/asked"\n'
        "while [ $1 != -dependency ]; do shift; done\n"
        f"printf '{right.decode()}' >\"${{6%/*}}/$3-$4.jar\"\n"
    )
    java.chmod(0o755)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    cache = tmp_path / "cache"
    assert iceberg_jars({}, cache).paths == (cache / NAME,)
    asked = (java.parent / "asked").read_text().split()
    ivy = Path(asked[asked.index("-jar") + 1])
    assert ivy.is_file()
    assert asked[asked.index("-dependency") + 1 :][:3] == SPARK_PACKAGE.split(":")


def test_what_maven_brings_is_checked(
    tmp_path: Path, right: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    maven(tmp_path, "something else", monkeypatch)
    assert iceberg_jars({}, tmp_path / "cache").package == SPARK_PACKAGE
    assert list((tmp_path / "cache").iterdir()) == []


def test_the_jars_of_s3_are_fetched_each_by_its_name(
    tmp_path: Path, right: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    maven(tmp_path, right.decode(), monkeypatch)
    cache = tmp_path / "cache"
    paths = s3_jars({}, cache).paths
    assert sorted(paths) == sorted(cache.iterdir())
    assert [each.name for each in paths] == [each.file_name for each in S3]


def test_without_the_jars_of_s3_nothing_is_begun(
    tmp_path: Path, right: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / S3[0].file_name).write_bytes(right)
    with pytest.raises(Unsupported, match="lie on S3") as refused:
        s3_jars({}, tmp_path)
    assert S3[0].package not in str(refused.value)
    assert all(each.package in str(refused.value) for each in S3[1:])
    assert S3_VARIABLE in str(refused.value)


def test_jars_of_s3_that_are_named_are_taken(tmp_path: Path) -> None:
    paths = (tmp_path / "one.jar", tmp_path / "two.jar")
    for path in paths:
        path.write_bytes(b"whatever")
    environ = {S3_VARIABLE: f"{paths[0]}, {paths[1]}"}
    assert s3_jars(environ, tmp_path).paths == paths


def test_jars_are_put_together() -> None:
    both = Jars(package="a:b:1") + Jars((Path("/x.jar"), Path("/y.jar")))
    assert both.settings() == {"spark.jars": "/x.jar,/y.jar", "spark.jars.packages": "a:b:1"}
