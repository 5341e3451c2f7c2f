"""What a repeated read costs: its requests to the store, and the Python functions that answer it."""

import socket
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Self

import httpx2
import pytest

from arco.storage.backend import Backend
from tests.api.iceberg.warehouse import Warehouse
from tests.api.server import Options, Served, served
from tests.storage.interposed import Interposed

HEAD, UNRESOLVED = ("get", "/manifests/catalog/"), ("get", "/iceberg_doubts/")
POINTER, METADATA = ("get", "/iceberg_pointers/"), ("head", "/metadata/")
# A lease lives its own life, and a commit is reported after its answer.
BACKGROUND = ("/locks/", "/executions/", "/ledger/", "/_probe/")

READS = {
    "config": ("/iceberg/v1/config", [HEAD]),
    "namespaces": ("/iceberg/v1/{prefix}/namespaces", [HEAD]),
    "namespace": ("/iceberg/v1/{prefix}/namespaces/db", [HEAD]),
    "tables": ("/iceberg/v1/{prefix}/namespaces/db/tables", [HEAD, UNRESOLVED]),
    "table": ("/iceberg/v1/{prefix}/namespaces/db/tables/t", [HEAD, POINTER, METADATA]),
}
# The functions that a request runs, those of libraries included: when it reads the head itself, and when it
# shares the read of another. A fifth above what was measured.
FUNCTIONS = {"config": (175, 92), "tables": (265, 97), "table": (350, 132)}
READ_COUNT = 20


class Counted:
    """A server that counts the requests to its store."""

    def __init__(self, api: Served, prefix: str, requests: list[tuple[str, str]]) -> None:
        self.api = api
        self._prefix = prefix
        self._requests = requests

    def path(self, read: str) -> str:
        return READS[read][0].format(prefix=self._prefix)

    def clear(self) -> None:
        self._requests.clear()

    def requests(self) -> list[tuple[str, str]]:
        return [each for each in self._requests if not any(part in each[1] for part in BACKGROUND)]

    def get_together(self, path: str, count: int) -> None:
        """Send requests that all arrive before the first is answered."""
        url = httpx2.URL(self.api.url)
        request = f"GET {path} HTTP/1.1\r\nHost: {url.host}\r\n\r\n".encode()
        answers = b""
        with socket.create_connection((url.host, url.port or 80), timeout=10) as connection:
            connection.sendall(request * count)
            while answers.count(b"HTTP/1.1 200 OK") < count or not answers.endswith(b"}"):
                answers += connection.recv(1 << 20)


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counted]:
    requests: list[tuple[str, str]] = []

    async def record(verb: str, key: str) -> None:
        requests.append((verb, key))

    def wrap(inner: Backend) -> Backend:
        return Interposed(inner, before=record)

    with served(tmp_path_factory.mktemp("cost") / "store", Options(wrap=wrap)) as api:
        with api.client() as http:
            prefix = http.get("/iceberg/v1/config").json()["overrides"]["prefix"]
            warehouse = Warehouse(http, "default", prefix)
            warehouse.make_namespace("db")
            warehouse.make_table("t")
            counted = Counted(api, prefix, requests)
            for read in READS:
                assert http.get(counted.path(read)).status_code == 200
        yield counted


@pytest.mark.parametrize("read", READS)
def test_a_repeated_read_only_confirms_what_it_depends_on(counted: Counted, read: str) -> None:
    path, expected = counted.path(read), READS[read][1]
    with counted.api.client() as http:
        http.get(path)
        counted.clear()
        for _ in range(10):
            assert http.get(path).status_code == 200
    requests = counted.requests()
    assert len(requests) == 10 * len(expected)
    for verb, part in expected:
        assert sum(each[0] == verb and part in each[1] for each in requests) == 10


@pytest.mark.parametrize("read", READS)
def test_reads_that_arrive_together_confirm_it_once(counted: Counted, read: str) -> None:
    path, expected = counted.path(read), READS[read][1]
    counted.clear()
    counted.get_together(path, 10)
    assert len(counted.requests()) == len(expected)


@pytest.mark.parametrize("read", FUNCTIONS)
def test_a_read_runs_few_functions(counted: Counted, read: str) -> None:
    path, limits = counted.path(read), FUNCTIONS[read]
    with counted.api.client() as http, _FunctionCounter(counted.api) as alone:
        for _ in range(READ_COUNT):
            assert http.get(path).status_code == 200
    with _FunctionCounter(counted.api) as together:
        counted.get_together(path, READ_COUNT)
    assert alone.count <= limits[0] * READ_COUNT
    assert together.count <= limits[1] * READ_COUNT


class _FunctionCounter:
    """Counts the calls of Python functions on the thread of a server."""

    def __init__(self, api: Served) -> None:
        self.count = 0
        self._loop = api.loop

    def __enter__(self) -> Self:
        self._loop.call_soon_threadsafe(sys.setprofile, self._count)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(sys.setprofile, None)

    def _count(self, _frame: FrameType, event: str, _arg: object) -> None:
        if event == "call":
            self.count += 1
