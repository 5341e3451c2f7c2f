"""Apache Iceberg's own REST catalog, to try the suites of this folder on.

    python -m tests.interop.reference 8188 /tmp/reference
    ICEBERG_URI=http://127.0.0.1:8188 pytest -m interop tests/interop

It has no authentication and listens on every address: not for a machine that others reach.
"""

import os
import sys
from pathlib import Path

from tests.interop.java import jars, java


def main(port: str, directory: str) -> None:
    """Become the server, on SQLite and files in `directory`."""
    root = Path(directory).absolute()
    root.mkdir(parents=True, exist_ok=True)
    settings = {
        "CATALOG_REST_PORT": port,
        "CATALOG_URI": f"jdbc:sqlite:{root}/catalog.db",
        "CATALOG_WAREHOUSE": f"{root.as_uri()}/warehouse",
        "CATALOG_JDBC_STRICT__MODE": "true",
    }
    command = [java(), "-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    command += ["-cp", f"{jars('refserver')}/*", "org.apache.iceberg.rest.RESTCatalogServer"]
    os.execve(command[0], command, {**os.environ, **settings})


if __name__ == "__main__":
    main(*sys.argv[1:])
