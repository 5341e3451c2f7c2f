"""The jar that makes Spark know Iceberg: where it is, or how it is fetched once.

A jar that was named is taken as it is. One that is kept or fetched is checked by its hash, as its code runs
with the rights of whoever runs a pipeline.
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from arco.core.errors import Unsupported

SPARK_PACKAGE = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"
SPARK_SHA256 = "d6ea6c5d099288daeb7d5a92061bd3d7d8f296492632b42378e5f2f0e3066242"
VARIABLE = "ARCO_ICEBERG_JAR"
WITHOUT_IT = "or write plain files with --format parquet, which needs no jar"

_FETCH_S = 600
_BLOCK = 1024 * 1024


@dataclass(frozen=True)
class Jars:
    """What Spark is told: a file that is there, or a package that it fetches itself."""

    path: Path | None = None
    package: str | None = None

    def settings(self) -> dict[str, str]:
        """The same as settings of Spark."""
        if self.path is not None:
            return {"spark.jars": str(self.path)}
        return {} if self.package is None else {"spark.jars.packages": self.package}


def iceberg_jars(environ: Mapping[str, str] = os.environ, cache: Path | None = None) -> Jars:
    """The jar that is named, kept or fetched by Maven; failing these, Spark has to fetch it."""
    named = environ.get(VARIABLE)
    if named:
        path = Path(named).expanduser()
        if not path.is_file():
            raise Unsupported(f"{VARIABLE} names {path}, and there is no such file")
        return Jars(path.resolve())
    kept = (cache or _cache(environ)) / _file_name()
    if _is_right(kept) or _fetch(kept):
        return Jars(kept)
    return Jars(package=SPARK_PACKAGE)


def _cache(environ: Mapping[str, str]) -> Path:
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "arco" / "jars"


def _file_name() -> str:
    _, artifact, release = SPARK_PACKAGE.split(":")
    return f"{artifact}-{release}.jar"


def _is_right(path: Path) -> bool:
    if not path.is_file():
        return False
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest() == SPARK_SHA256


def _fetch(kept: Path) -> bool:
    """Have Maven fetch the jar; whoever looks into the cache meanwhile finds all of it or nothing."""
    maven = shutil.which("mvn")
    if maven is None:
        return False
    folder = kept.parent / f"fetching-{os.getpid()}"
    command = [
        *(maven, "--quiet", "--batch-mode", "-Dstyle.color=never"),
        *("dependency:copy", f"-Dartifact={SPARK_PACKAGE}", f"-DoutputDirectory={folder}"),
    ]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Maven wants no project: it is started where there is none.
        subprocess.run(  # noqa: S603 - Maven with words of ours
            command, cwd=folder, capture_output=True, timeout=_FETCH_S, check=True
        )
        fetched = folder / kept.name
        if not _is_right(fetched):
            return False
        fetched.replace(kept)
    except (OSError, subprocess.SubprocessError):
        return False  # Spark has its own way to fetch it, and tells if that does not work either
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return True
