"""The jars that make Spark know Iceberg and S3: where they are, or how they are fetched once.

A jar that was named is taken as it is. One that is kept or fetched is checked by its hash, as its code runs
with the rights of whoever runs a pipeline. Without Maven, Spark fetches Iceberg's jar itself, but not those
of S3: it would bring along all that they could ever use, ten times their size.
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
VARIABLE = "ARCO_ICEBERG_JAR"
S3_VARIABLE = "ARCO_S3_JARS"
WITHOUT_IT = "or write plain files with --format parquet, which needs no jar"

_FETCH_S = 600
_BLOCK = 1024 * 1024


@dataclass(frozen=True)
class Artifact:
    """A jar as Maven knows it, and what it has to be."""

    package: str
    sha256: str

    @property
    def file_name(self) -> str:
        """What Maven calls the file."""
        _, artifact, release = self.package.split(":")
        return f"{artifact}-{release}.jar"

    def is_at(self, path: Path) -> bool:
        """Whether a file is this very jar."""
        if not path.is_file():
            return False
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
        return digest.hexdigest() == self.sha256


ICEBERG = Artifact(
    SPARK_PACKAGE, "d6ea6c5d099288daeb7d5a92061bd3d7d8f296492632b42378e5f2f0e3066242"
)
# Iceberg's own way to S3, whose client of S3 serves for files too; then files on S3, and committing them
# without moving them. Their releases go with the client, with Spark's Hadoop and with Spark.
S3 = (
    Artifact(
        "org.apache.iceberg:iceberg-aws-bundle:1.11.0",
        "38f01da7e96850cdd05e6616d758b77b43314b712a8808e3f9a824d56976162f",
    ),
    Artifact(
        "software.amazon.awssdk:s3-transfer-manager:2.44.4",
        "dbcad736b19f6eb8471f9edf027d9fffe994228f25f415894efd01fd80cb6c02",
    ),
    Artifact(
        "org.apache.hadoop:hadoop-aws:3.4.2",
        "d2d24e6b715b5656b9d238bf13b6682a07e2004dd36aad74a73aeb854319f4d9",
    ),
    Artifact(
        "org.apache.spark:spark-hadoop-cloud_2.13:4.1.1",
        "e5b41b43d481510afd0cdc372b593770ddee5a0a348d0744cef6c6cd77a27943",
    ),
)


@dataclass(frozen=True)
class Jars:
    """What Spark is told: files that are there, and perhaps a package that it fetches itself."""

    paths: tuple[Path, ...] = ()
    package: str | None = None

    def __add__(self, others: "Jars") -> "Jars":
        return Jars(self.paths + others.paths, self.package or others.package)

    def settings(self) -> dict[str, str]:
        """The same as settings of Spark."""
        found = {"spark.jars": ",".join(map(str, self.paths))} if self.paths else {}
        return found if self.package is None else {**found, "spark.jars.packages": self.package}


def iceberg_jars(environ: Mapping[str, str] = os.environ, cache: Path | None = None) -> Jars:
    """The jar that is named, kept or fetched by Maven; failing these, Spark has to fetch it."""
    if named := environ.get(VARIABLE):
        return Jars(_named(VARIABLE, named))
    kept = _kept(ICEBERG, cache or _cache(environ))
    return Jars(package=SPARK_PACKAGE) if kept is None else Jars((kept,))


def s3_jars(environ: Mapping[str, str] = os.environ, cache: Path | None = None) -> Jars:
    """The jars by which Spark reaches S3: those that are named, or kept, or fetched by Maven."""
    if named := environ.get(S3_VARIABLE):
        return Jars(_named(S3_VARIABLE, named))
    folder = cache or _cache(environ)
    found = {each.package: _kept(each, folder) for each in S3}
    if lacking := [package for package, path in found.items() if path is None]:
        raise Unsupported(
            f"the tables lie on S3, and Spark reaches it with {', '.join(lacking)}, which could not be "
            f"fetched: install Maven and go online, or set {S3_VARIABLE} to the files, with commas between"
        )
    return Jars(tuple(path for path in found.values() if path is not None))


def _named(variable: str, said: str) -> tuple[Path, ...]:
    paths = [Path(each.strip()).expanduser() for each in said.split(",") if each.strip()]
    for path in paths:
        if not path.is_file():
            raise Unsupported(f"{variable} names {path}, and there is no such file")
    return tuple(path.resolve() for path in paths)


def _cache(environ: Mapping[str, str]) -> Path:
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "arco" / "jars"


def _kept(artifact: Artifact, cache: Path) -> Path | None:
    kept = cache / artifact.file_name
    return kept if artifact.is_at(kept) or _fetch(artifact, kept) else None


def _fetch(artifact: Artifact, kept: Path) -> bool:
    """Have Maven fetch a jar; whoever looks into the cache meanwhile finds all of it or nothing."""
    maven = shutil.which("mvn")
    if maven is None:
        return False
    folder = kept.parent / f"fetching-{os.getpid()}"
    command = [
        *(maven, "--quiet", "--batch-mode", "-Dstyle.color=never"),
        *("dependency:copy", f"-Dartifact={artifact.package}", f"-DoutputDirectory={folder}"),
    ]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Maven wants no project: it is started where there is none.
        subprocess.run(  # noqa: S603 - Maven with words of ours
            command, cwd=folder, capture_output=True, timeout=_FETCH_S, check=True
        )
        fetched = folder / kept.name
        if not artifact.is_at(fetched):
            return False
        fetched.replace(kept)
    except (OSError, subprocess.SubprocessError):
        return False  # whoever asked says what else could be done
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return True
