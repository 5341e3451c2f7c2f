"""The jars by which Spark supports Iceberg and S3: found on disk, or fetched once.

A jar that the user names is used as it is. A cached or fetched jar is checked by its hash, as its code runs
with the user's rights. Maven fetches where it is installed, as its settings may name a mirror; elsewhere
Ivy does, which comes with Spark. Neither fetches dependencies, which for S3 are ten times as large.
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from arco.core.errors import Unsupported
from arco.core.java import Java, find_java

SPARK_PACKAGE = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"
VARIABLE = "ARCO_ICEBERG_JAR"
S3_VARIABLE = "ARCO_S3_JARS"
WITHOUT_IT = "or write plain files with --format parquet, which needs no jar"

_FETCH_S = 600
_BLOCK = 1024 * 1024


@dataclass(frozen=True)
class Artifact:
    """A jar in Maven's repository, and its hash."""

    package: str
    sha256: str

    @property
    def file_name(self) -> str:
        """The file name in Maven's repository."""
        _, artifact, release = self.package.split(":")
        return f"{artifact}-{release}.jar"

    def is_at(self, path: Path) -> bool:
        """Whether a file exists and has the hash of this jar."""
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
# Iceberg's S3 support, whose S3 client serves for Hadoop too; Hadoop's S3A files; committers that do not
# move files. Their releases match that client, Spark's Hadoop and Spark.
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
    """Jar files on disk, and perhaps a package that Spark fetches itself."""

    paths: tuple[Path, ...] = ()
    package: str | None = None

    def __add__(self, others: "Jars") -> "Jars":
        return Jars(self.paths + others.paths, self.package or others.package)

    def settings(self) -> dict[str, str]:
        """The settings of Spark for them."""
        files = {"spark.jars": ",".join(map(str, self.paths))} if self.paths else {}
        return files if self.package is None else {**files, "spark.jars.packages": self.package}


def jar_cache(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder that fetched jars are kept in."""
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "arco" / "jars"


def iceberg_jars(environ: Mapping[str, str] = os.environ, cache: Path | None = None) -> Jars:
    """The jar that is named, cached or fetched; otherwise Spark has to fetch it."""
    if names := environ.get(VARIABLE):
        return Jars(_named_files(VARIABLE, names))
    cached = _cached(ICEBERG, cache or jar_cache(environ))
    return Jars(package=SPARK_PACKAGE) if cached is None else Jars((cached,))


def s3_jars(environ: Mapping[str, str] = os.environ, cache: Path | None = None) -> Jars:
    """The jars by which Spark reaches S3: named, cached or fetched."""
    if names := environ.get(S3_VARIABLE):
        return Jars(_named_files(S3_VARIABLE, names))
    folder = cache or jar_cache(environ)
    paths = {each.package: _cached(each, folder) for each in S3}
    if missing := [package for package, path in paths.items() if path is None]:
        raise Unsupported(
            f"the tables lie on S3, and Spark reaches it with {', '.join(missing)}, which could not be "
            f"fetched: go online, or set {S3_VARIABLE} to the files, with commas between"
        )
    return Jars(tuple(path for path in paths.values() if path is not None))


def _named_files(variable: str, names: str) -> tuple[Path, ...]:
    paths = [Path(each.strip()).expanduser() for each in names.split(",") if each.strip()]
    for path in paths:
        if not path.is_file():
            raise Unsupported(f"{variable} names {path}, and there is no such file")
    return tuple(path.resolve() for path in paths)


def _cached(artifact: Artifact, cache: Path) -> Path | None:
    path = cache / artifact.file_name
    return path if artifact.is_at(path) or _fetch(artifact, path) else None


def _fetch(artifact: Artifact, path: Path) -> bool:
    """Fetch a jar; other processes see the complete file or none."""
    folder = path.parent / f"fetching-{os.getpid()}"
    command = _maven(artifact, folder) or _ivy(artifact, folder)
    if command is None:
        return False
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # It runs in this folder, as Maven must not find a project.
        subprocess.run(  # noqa: S603 - a program that was looked up, with constant arguments
            command, cwd=folder, capture_output=True, timeout=_FETCH_S, check=True
        )
        fetched = folder / path.name
        if not artifact.is_at(fetched):
            return False
        fetched.replace(path)
    except (OSError, subprocess.SubprocessError):
        return False  # the caller reports what else could be done
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return True


def _maven(artifact: Artifact, folder: Path) -> list[str] | None:
    """The command by which Maven puts a jar into a folder, if Maven is installed."""
    maven = shutil.which("mvn")
    if maven is None:
        return None
    return [
        *(maven, "--quiet", "--batch-mode", "-Dstyle.color=never"),
        *("dependency:copy", f"-Dartifact={artifact.package}", f"-DoutputDirectory={folder}"),
    ]


def _ivy(artifact: Artifact, folder: Path) -> list[str] | None:
    """The same with the Ivy of the installed Spark, if there is a Java to run it."""
    java, spark = find_java(), find_spec("pyspark")
    if not isinstance(java, Java) or spark is None or spark.origin is None:
        return None
    ivy = next(Path(spark.origin).parent.glob("jars/ivy-*.jar"), None)
    if ivy is None:
        return None
    return [
        *(java.command, "-jar", str(ivy), "-warn", "-cache", str(folder / "cache")),
        *("-confs", "master", "-types", "jar"),  # without dependencies, sources and documentation
        *("-dependency", *artifact.package.split(":")),
        *("-retrieve", str(folder / "[artifact]-[revision].[ext]")),
    ]
