"""Fetches the jars that the tests need, each checked by its hash; a jar that exists already is kept.

Without arguments: Iceberg for Spark, as `arco.flow.spark.jars` declares it, into the cache of `arco run`.
With `--interop`: also the Java programs of `make interop`, into .cache/jars, one folder for each list in
tests/interop/jars. `--lock` writes the hashes of these lists again, after a list was changed.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from arco.core.errors import Unsupported
from arco.core.java import Java, find_java
from arco.flow.spark.jars import ICEBERG, iceberg_jars, jar_cache
from arco.flow.spark.jars import VARIABLE as ICEBERG_JAR_VARIABLE

REPOSITORY = Path(__file__).resolve().parent.parent
LISTS = REPOSITORY / "tests" / "interop" / "jars"
JAR_FOLDER = REPOSITORY / ".cache" / "jars"


def main() -> int:
    """The exit code: 1 if a jar could not be fetched, or is not the one that was locked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--interop", action="store_true", help="also the programs of make interop")
    parser.add_argument("--lock", action="store_true", help="write the hashes of the programs")
    arguments = parser.parse_args()
    fetched = fetch_iceberg()
    if fetched and (arguments.interop or arguments.lock):
        fetched = fetch_programs(lock=arguments.lock)
    return 0 if fetched else 1


def fetch_iceberg() -> bool:
    """Fetch Iceberg's runtime jar for Spark; print what to do if that fails."""
    is_named = bool(os.environ.get(ICEBERG_JAR_VARIABLE))
    if not is_named and not (jar_cache() / ICEBERG.file_name).exists():
        print("Fetching Iceberg's runtime jar for Spark: 46 MB, once.", flush=True)
    try:
        paths = iceberg_jars().paths
    except Unsupported as problem:
        return _fail(f"{problem}: correct {ICEBERG_JAR_VARIABLE}, or unset it to fetch the jar.")
    return bool(paths) or _fail(
        f"The jar {ICEBERG.package} could not be fetched, and tests on Spark need it: go online "
        "(behind a mirror or a proxy: install Maven and name it in Maven's settings), or set "
        f"{ICEBERG_JAR_VARIABLE} to the file, then call make again."
    )


def fetch_programs(*, lock: bool) -> bool:
    """Fetch the jars of every list, with all they depend on."""
    maven = shutil.which("mvn")
    if maven is None or not isinstance(find_java(), Java):
        if lock:
            return _fail("Java 17 and Maven were not found: install both to lock the jars.")
        print(
            "Java 17 and Maven were not found: the tests that run Java programs will be skipped "
            "(install both to run them)."
        )
        return True
    return all(_fetch_list(maven, each, lock=lock) for each in sorted(LISTS.glob("*.xml")))


def _fetch_list(maven: str, project: Path, *, lock: bool) -> bool:
    locked, folder = project.with_suffix(".sha256"), JAR_FOLDER / project.stem
    if not lock and not locked.exists():
        return _fail(f"{locked} does not exist: run tools/fetch_jars.py --lock to write it.")
    # A copy of the locked hashes, written once all jars have them.
    stamp = folder / ".sha256"
    if not lock and stamp.exists() and stamp.read_text() == locked.read_text():
        return True
    print(f"Fetching the jars of {project.stem} ...", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command = [maven, "--quiet", "--batch-mode", "-Dstyle.color=never", "--file", str(project)]
    command += ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
    if subprocess.run(command, check=False).returncode != 0:
        return False  # Maven printed the reason
    hashes = _hashes(folder)
    if lock:
        locked.write_text(hashes)
    if hashes != locked.read_text():
        return _fail(f"The jars in {folder} are not those of {locked}: compare them.")
    stamp.write_text(hashes)
    return True


def _fail(message: str) -> bool:
    """Print an error; always False, for the caller to return."""
    print(message, file=sys.stderr)
    return False


def _hashes(folder: Path) -> str:
    """A line for each jar, as sha256sum prints it."""
    jars = sorted(folder.glob("*.jar"))
    lines = [f"{hashlib.sha256(jar.read_bytes()).hexdigest()}  {jar.name}\n" for jar in jars]
    return "".join(lines)


if __name__ == "__main__":
    sys.exit(main())
