"""A peer: Apache Polaris, from an unpacked binary distribution of 1.4.1 that POLARIS_DIR names.

It keeps its state in memory, which is its default, and the files of tables on the local disk. It needs Java
21 or newer, of JAVA_HOME if that is set.
"""

import contextlib
import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from bench.load import Connection, request
from bench.process import Server, await_port, free_ports, running
from bench.rest import Catalog

_NAME = "bench"
_SECRET = "bench"
_OAUTH = (
    f"grant_type=client_credentials&client_id=root&client_secret={_SECRET}&scope=PRINCIPAL_ROLE:ALL"
)


def missing() -> str | None:
    """Why it cannot be measured, if it cannot."""
    if not (named := os.environ.get("POLARIS_DIR")):
        return "Polaris is left out: POLARIS_DIR names no unpacked distribution"
    if not _server().exists():
        return f"Polaris is left out: POLARIS_DIR={named} has no server/quarkus-run.jar"
    return None


def version() -> str:
    """That of its jars."""
    names = sorted(path.name for path in _server().parent.rglob("*polaris-core-*.jar"))
    return re.sub(r".*polaris-core-(.*)\.jar", r"\1", names[0]) if names else "of unknown version"


@contextlib.contextmanager
def polaris(place: Path) -> Iterator[Catalog]:
    """The server with an empty catalog whose files are in `place`."""
    place.mkdir(parents=True)
    port, admin_port = free_ports(2)
    settings = {
        "polaris.realm-context.realms": "POLARIS",
        "polaris.bootstrap.credentials": f"POLARIS,root,{_SECRET}",
        'polaris.features."ALLOW_INSECURE_STORAGE_TYPES"': "true",  # without both, no local files
        'polaris.features."SUPPORTED_CATALOG_STORAGE_TYPES"': '["FILE"]',
        "polaris.readiness.ignore-severe-issues": "true",
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": str(port),
        "quarkus.management.port": str(admin_port),
        "quarkus.log.console.enabled": "false",
        "quarkus.log.file.enabled": "false",
        "quarkus.otel.sdk.disabled": "true",
    }
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    ends = (128 + signal.SIGTERM, -signal.SIGTERM, 0)
    command = [java, "-Xmx2g", *(f"-D{name}={value}" for name, value in settings.items())]
    with running([*command, "-jar", str(_server())], ends=ends) as process:
        await_port(process, port)
        server = Server(process.pid, port)
        headers = {"Authorization": f"Bearer {_token(port)}"}
        _make_catalog(port, headers, place)
        yield Catalog(server, "/api/catalog", _NAME, headers)


def _server() -> Path:
    return Path(os.environ["POLARIS_DIR"]).expanduser() / "server" / "quarkus-run.jar"


def _token(port: int) -> str:
    body = _OAUTH.encode()
    lines = ["POST /api/catalog/v1/oauth/tokens HTTP/1.1", "Host: localhost"]
    lines += ["Content-Type: application/x-www-form-urlencoded", f"Content-Length: {len(body)}"]
    answer = json.loads(_answer(port, "\r\n".join([*lines, "", ""]).encode() + body))
    return str(answer["access_token"])


def _make_catalog(port: int, headers: dict[str, str], place: Path) -> None:
    """A catalog of files, in which the root principal may do everything."""
    location = f"{place.as_uri()}/warehouse"
    catalog = {
        "name": _NAME,
        "type": "INTERNAL",
        "properties": {"default-base-location": location},
        "storageConfigInfo": {"storageType": "FILE", "allowedLocations": [location]},
    }
    _manage(port, headers, "POST", "catalogs", {"catalog": catalog})
    grant = {"grant": {"type": "catalog", "privilege": "CATALOG_MANAGE_CONTENT"}}
    _manage(port, headers, "PUT", f"catalogs/{_NAME}/catalog-roles/catalog_admin/grants", grant)


def _manage(port: int, headers: dict[str, str], method: str, path: str, document: object) -> None:
    body = json.dumps(document).encode()
    _answer(port, request(method, f"/api/management/v1/{path}", headers, body))


def _answer(port: int, raw: bytes) -> bytes:
    with closing(Connection(port)) as connection:
        connection.send(raw)
        status, _, body = connection.answer()
    if status >= 300:
        raise AssertionError(f"Polaris answered {status}: {body[:300]!r}")
    return body
