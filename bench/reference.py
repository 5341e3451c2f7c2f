"""A peer: Apache Iceberg's own REST catalog, on SQLite and local files, from the jars of `make interop`.

It has no authentication and listens on every address, as it is shipped; it runs only while it is measured.
"""

import contextlib
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

from bench.process import Server, await_port, free_ports, running
from bench.rest import Catalog

_REPOSITORY = Path(__file__).parent.parent
_JARS = _REPOSITORY / ".cache" / "jars" / "refserver"
_MAIN = "org.apache.iceberg.rest.RESTCatalogServer"


def missing() -> str | None:
    """Why it cannot be measured, if it cannot."""
    if shutil.which("java") is None:
        return (
            "Java was not found: Iceberg's reference server is left out (install Java 17 and Maven)"
        )
    if not (_JARS / ".sha256").exists():
        return "Iceberg's reference server is left out: run tools/fetch_jars.py --interop (needs Maven)"
    return None


def version() -> str:
    """That of the jars."""
    [jar] = _JARS.glob("iceberg-core-*[0-9].jar")
    return re.sub(r".*-core-(.*)\.jar", r"\1", jar.name)


@contextlib.contextmanager
def reference(place: Path) -> Iterator[Catalog]:
    """The server with all it keeps in `place`."""
    place.mkdir(parents=True)
    [port] = free_ports(1)
    settings = {
        "CATALOG_REST_PORT": str(port),
        "CATALOG_URI": f"jdbc:sqlite:{place}/catalog.db",
        "CATALOG_WAREHOUSE": f"{place.as_uri()}/warehouse",
        "CATALOG_JDBC_STRICT__MODE": "true",
    }
    command = ["java", "-Xmx2g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]
    command += ["-cp", f"{_JARS}/*", _MAIN]
    ends = (128 + signal.SIGTERM, -signal.SIGTERM, 0)
    with running(command, ends=ends, settings=settings) as process:
        await_port(process, port)
        yield Catalog(Server(process.pid, port))
