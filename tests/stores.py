"""Stores of every kind, opened through their addresses as a user would open them."""

import base64
import hmac
import io
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from email.utils import formatdate
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen
from uuid import uuid4

import boto3
import pytest
from moto.server import ThreadedMotoServer

from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.storage.address import parse_address
from arco.storage.backend import Backend
from arco.storage.open import open_backend
from arco.storage.retry import StoreRetryPolicy
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.faults.running import AZURE_ACCOUNT, RunningServer, running_server

# The account and key that every emulator of Azure ships with; they open nothing else.
AZURE_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
MINIO = Path(__file__).parent.parent / ".cache" / "bin" / "minio"
AZURITE = Path(__file__).parent / "azurite" / "node_modules" / "azurite"

os.environ["AZURE_STORAGE_ACCOUNT_KEY"] = AZURE_KEY

KINDS = (
    *("memory", "local", "moto", "azurite", "fault-s3", "fault-gcs", "fault-azure"),
    pytest.param("minio", marks=pytest.mark.interop),
)

HASTY = StoreRetryPolicy(
    attempts=8, first_pause_ms=2, longest_pause_ms=50, budget_ms=8_000, attempt_ms=2_000
)


@dataclass(frozen=True)
class Bench:
    """A backend and the runtime that it was opened with."""

    backend: Backend
    runtime: Runtime
    is_flat: bool  # whether keys are names only, so that `a` and `a/b` can both be objects
    is_slow: bool = False  # an emulator that takes milliseconds of a core for a request

    def store(self, role: Role = Role.API, *, tenant: str = "default") -> Store:
        """A handle, without the probe that a process makes at start."""
        scope = Scope(tenant=tenant)
        return Store(self.backend, self.runtime, scope=scope, role=role, retry=HASTY)


@pytest.fixture(scope="session")
def moto_url() -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    _serve_in_turn(server)
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    _make_bucket(url)
    yield url
    server.stop()


def _serve_in_turn(server: ThreadedMotoServer) -> None:
    """Have moto carry out one request at a time.

    Between its look for an object and its write it lets other requests pass, so that two conditional
    writes of one key could succeed.
    """
    wsgi_server, turn = server._server, threading.Lock()
    assert wsgi_server is not None
    app = wsgi_server.app

    def in_turn(environ: dict[str, Any], start_response: Any) -> Any:
        # The body is read first: a client that stalls must not keep the others waiting.
        size = int(environ.get("CONTENT_LENGTH") or 0)
        if size:
            environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(size))
        with turn:
            return app(environ, start_response)

    wsgi_server.app = in_turn


@pytest.fixture(scope="session")
def azurite_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    node = shutil.which("node")
    if node is None or not AZURITE.exists():
        pytest.skip("Azurite is not installed: install Node.js 20 or newer, then `make setup`")
    port = _free_port()
    command = [node, str(AZURITE / "dist/src/blob/main.js"), "--blobPort", str(port)]
    command += ["--inMemoryPersistence", "--skipApiVersionCheck", "--silent", "--disableTelemetry"]
    process = subprocess.Popen(command, cwd=tmp_path_factory.mktemp("azurite"))
    try:
        _await_port(port, process)
        url = f"http://127.0.0.1:{port}/{AZURE_ACCOUNT}"
        _make_container(url)
        yield url
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="session")
def minio_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if not MINIO.exists():
        pytest.skip("MinIO is not built: install Go, then `make interop`")
    port = _free_port()
    command = [str(MINIO), "server", "--quiet", "--address", f"127.0.0.1:{port}"]
    command += [str(tmp_path_factory.mktemp("minio"))]
    settings = {
        "MINIO_ROOT_USER": os.environ["AWS_ACCESS_KEY_ID"],
        "MINIO_ROOT_PASSWORD": os.environ["AWS_SECRET_ACCESS_KEY"],
        "MINIO_BROWSER": "off",
    }
    process = subprocess.Popen(command, env={**os.environ, **settings})
    try:
        _await_port(port, process)
        url = f"http://127.0.0.1:{port}"
        _make_bucket(url)
        yield url
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="session")
def fault_server() -> Iterator[RunningServer]:
    with running_server() as server:
        yield server


@pytest.fixture
def faults(fault_server: RunningServer) -> Iterator[RunningServer]:
    """The fault server with nothing scripted yet."""
    fault_server.script.clear()
    yield fault_server
    fault_server.script.clear()


def store_url(kind: str, request: pytest.FixtureRequest) -> str:
    """The address of a fresh, empty store of a kind."""
    fresh = uuid4().hex
    if kind == "memory":
        return "memory://"
    if kind == "local":
        return str(request.getfixturevalue("tmp_path") / "store")
    if kind == "moto":
        return f"s3://arco/{fresh}?endpoint={request.getfixturevalue('moto_url')}"
    if kind == "minio":
        return f"s3://arco/{fresh}?endpoint={request.getfixturevalue('minio_url')}"
    if kind == "azurite":
        url = request.getfixturevalue("azurite_url")
        return f"az://arco/{fresh}?endpoint={url}&account={AZURE_ACCOUNT}"
    server: RunningServer = request.getfixturevalue("faults")
    return fault_url(kind, server, fresh)


def fault_url(kind: str, server: RunningServer, prefix: str) -> str:
    """The address of the fault server in one of its dialects."""
    if kind == "fault-s3":
        return f"s3://arco/{prefix}?endpoint={server.s3_endpoint}"
    if kind == "fault-gcs":
        return f"gs://arco/{prefix}?endpoint={server.gcs_endpoint}"
    return f"az://arco/{prefix}?endpoint={server.azure_endpoint}&account={AZURE_ACCOUNT}"


@pytest.fixture(params=KINDS)
def bench(request: pytest.FixtureRequest, runtime: Runtime) -> Bench:
    """Every kind of store in turn."""
    opened = open_bench(store_url(request.param, request), runtime)
    # MinIO keeps objects as directories and loses `a/b` from listings where there is an `a`.
    return replace(
        opened,
        is_flat=opened.is_flat and request.param != "minio",
        is_slow=request.param in {"moto", "azurite"},
    )


@pytest.fixture
def memory(runtime: Runtime) -> Backend:
    """A store in memory: for what holds of every store and needs to be shown on one."""
    return open_bench("memory://", runtime).backend


def open_bench(url: str, runtime: Runtime) -> Bench:
    address = parse_address(url)
    backend = open_backend(address, runtime, fsync=False)
    return Bench(backend, runtime, is_flat=address.scheme != "file")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(200):
        if process.poll() is not None:
            pytest.fail("the server ended at start")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail("the server does not listen")


def _make_bucket(url: str) -> None:
    boto3.client("s3", endpoint_url=url, region_name="us-east-1").create_bucket(Bucket="arco")


def _make_container(url: str) -> None:
    """One request signed by hand: a library for it would be the largest in the test environment."""
    stamp = formatdate(usegmt=True)
    headers = {"x-ms-date": stamp, "x-ms-version": "2021-08-06"}
    path = f"/{AZURE_ACCOUNT}/{AZURE_ACCOUNT}/arco\nrestype:container"
    signed = "PUT" + "\n" * 12 + f"x-ms-date:{stamp}\nx-ms-version:2021-08-06\n{path}"
    mac = hmac.new(base64.b64decode(AZURE_KEY), signed.encode(), "sha256").digest()
    headers["Authorization"] = f"SharedKey {AZURE_ACCOUNT}:{base64.b64encode(mac).decode()}"
    request = Request(f"{url}/arco?restype=container", method="PUT", headers=headers)
    with urlopen(request) as answer:
        assert answer.status == 201
