"""The peer: Apache Iceberg's own REST catalog, on SQLite and local files, from the jars of `make interop`.

It has no authentication and listens on every address, as it is shipped; it runs only while it is measured.
"""

import contextlib
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from bench.process import PATIENCE_S, Server, running

_JARS = Path(__file__).parent.parent / ".cache" / "jars" / "refserver"
_MAIN = "org.apache.iceberg.rest.RESTCatalogServer"


def missing() -> str | None:
    """Why there is no peer to measure, if there is none."""
    if shutil.which("java") is None:
        return "Java was not found, so there is no peer to measure (install Java 17 and Maven)"
    if not (_JARS / ".sha256").exists():
        return "the jars of the peer are not there: run make interop (needs Maven)"
    return None


@contextlib.contextmanager
def reference(place: Path) -> Iterator[Server]:
    """The peer with all it keeps in `place`."""
    place.mkdir(parents=True)
    port = _free_port()
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
        _await_port(port)
        yield Server(process.pid, port)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _await_port(port: int) -> None:
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)
        else:
            return
