"""`Arco` reaches every operation of the REST API, and its documents are typed."""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import httpx2
import pytest

from arco.catalog.publication import DispatchedAttempt
from arco.client import Arco, ColumnDefinition
from arco.client.coordinator import HttpCoordinator
from arco.client.models import QuarantineLine
from arco.client.objects import CatalogObjects
from arco.core.errors import NotEmpty, NotFound, PreconditionFailed
from arco.core.runtime import system_runtime
from arco.flow.coordinator.messages import (
    AttemptOutcome,
    AttemptReport,
    Heartbeat,
    LeaseRequest,
    TaskStatus,
)
from arco.flow.plan.plan import Plan
from arco.flow.publish.wire import FilesStaged
from tests.cli.serving import serving

PAGES = frozenset({"/api/v1/docs", "/api/v1/docs.css", "/api/v1/docs.js"})  # for people alone
ID = "01a1e0f6-9113-7475-bb94-e3fac6dcb4cd"
MOMENT = "2026-01-31T12:00:00Z"
TABLE = {
    "id": ID,
    "kind": "TABLE",
    "name": "t",
    "full_name": "c.s.t",
    "created_at": MOMENT,
    "created_by": "user:ana",
    "updated_at": MOMENT,
    "updated_by": "user:ana",
    "commit": 1,
}
ANSWERED = (f"/api/v1/objects/{ID}", "/api/v1/catalogs/c/schemas/s/tables/t")
COLUMNS = [ColumnDefinition(name="id", data_type="bigint")]
PLAN = Plan(project="shop", selection="", now_ms=0, state_number=0)


class RequestedError(Exception):
    """A request that was recorded instead of being sent."""


class Recorder(httpx2.BaseTransport, httpx2.AsyncBaseTransport):
    """Records requests; those for the table that others are about are answered."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append((request.method, request.url.path))
        if request.method == "GET" and request.url.path in ANSWERED:
            return httpx2.Response(200, json=TABLE)
        raise RequestedError

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return self.handle_request(request)


def object_calls(
    objects: CatalogObjects[Any], name: str, new_name: str, parent: str | None = None
) -> Iterator[Callable[[], object]]:
    """The calls that all types of objects have."""
    yield lambda: objects.get(name)
    yield lambda: next(objects.list(parent))
    yield lambda: objects.rename(name, new_name)
    yield lambda: objects.update(name, comment=None)
    yield lambda: objects.drop(name)
    yield lambda: next(objects.history(object_id=ID))
    yield lambda: next(objects.diff(start="1"))


def calls(arco: Arco) -> Iterator[Callable[[], object]]:
    """A call of every method that sends a request."""
    yield from object_calls(arco.catalogs, "c", "d")
    yield from object_calls(arco.schemas, "c.s", "c.r", parent="c")
    yield from object_calls(arco.tables, "c.s.t", "c.s.u", parent="c.s")
    yield from object_calls(arco.views, "c.s.v", "c.s.w", parent="c.s")
    yield lambda: arco.tables.undrop(object_id=ID)
    yield lambda: arco.catalogs.create("c")
    yield lambda: arco.schemas.create("c.s")
    yield lambda: arco.tables.create("c.s.t", format="iceberg", columns=COLUMNS)
    yield lambda: arco.views.create("c.s.v", sql="SELECT 1", columns=COLUMNS)
    yield lambda: arco.views.replace_query("c.s.v", "SELECT 2")
    yield lambda: arco.columns.add("c.s.t", COLUMNS)
    yield lambda: arco.columns.update("c.s.t", "id", name="key")
    yield lambda: arco.columns.drop("c.s.t", "id")
    yield lambda: next(arco.tables.schema_history("c.s.t"))
    yield lambda: next(arco.tables.partitions("c.s.t"))
    yield lambda: arco.tables.health("c.s.t")
    yield lambda: arco.tables.statistics("c.s.t")
    yield lambda: arco.tables.files("c.s.t")
    yield lambda: arco.tables.publish_files(staged())
    yield lambda: arco.query("SELECT 1")
    yield lambda: arco.query_arrow("SELECT 1")
    yield lambda: arco.lineage("c.s.t")
    yield lambda: arco.impact("c.s.t", "id")
    yield lambda: next(arco.commits())
    yield lambda: arco.commit(1)
    yield lambda: next(arco.diff("1"))
    yield arco.manifest
    yield lambda: arco.object(ID)
    yield arco.health
    yield arco.is_live
    yield arco.is_ready
    yield arco.lag
    yield arco.metrics
    yield arco.openapi
    yield lambda: arco.events.send([])
    yield lambda: next(arco.quarantine.list())
    yield lambda: arco.quarantine.replay(QuarantineLine("executions", "s", 1, 1))
    yield lambda: next(arco.runs.list())
    yield lambda: arco.runs.get("r")
    yield lambda: arco.runs.submit(PLAN)
    yield lambda: arco.runs.cancel("r")
    yield lambda: arco.runs.retry("r")
    yield lambda: next(arco.runs.tasks("r"))
    yield lambda: next(arco.runs.logs("r", "t"))
    yield lambda: next(arco.executions.list("p"))
    yield lambda: arco.executions.get("e")
    yield lambda: next(arco.executions.tasks("e"))
    yield lambda: arco.flow.state(["c.s.t"])
    yield lambda: arco.flow.add_partition_values("customer", ["acme"])
    yield lambda: arco.flow.remove_partition_values("customer", ["acme"])


def staged() -> FilesStaged:
    attempt = DispatchedAttempt(
        attempt_id="9f86d081884c7d659a2feaa0c55ad015",
        task="t",
        dispatched_at_number=0,
        dispatched_at_ms=0,
        partitions=(),
    )
    return FilesStaged(table_id=ID, attempt=attempt, mode="append", files={})


async def worker_calls(coordinator: HttpCoordinator) -> None:
    """The calls of workers."""
    completed = AttemptReport(
        attempt_id="a",
        worker="w",
        started_at_ms=0,
        completed_at_ms=1,
        outcome=AttemptOutcome(status=TaskStatus.SUCCESS),
    )
    for call in (
        coordinator.lease(LeaseRequest(worker="w", slots=1, project="shop")),
        coordinator.watch("w", ("a",)),
        coordinator.heartbeat(Heartbeat(attempt_id="a", worker="w")),
        coordinator.complete(completed),
    ):
        with suppress(RequestedError):
            await call
    await coordinator.close()


def operations(document: dict[str, Any]) -> dict[tuple[str, str], re.Pattern[str]]:
    """The operations of the API by method and path, each with a pattern for paths of requests."""
    return {
        (method.upper(), path): re.compile(re.sub(r"\{[^}]+\}", "[^/]+", path))
        for path, methods in document["paths"].items()
        for method in methods
        if method != "head" and path not in PAGES
    }


@pytest.fixture(scope="module")
def arco(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arco]:
    with serving(tmp_path_factory.mktemp("client") / "store") as up, Arco(up.url) as client:
        yield client


async def test_every_operation_of_the_api_is_reached(arco: Arco) -> None:
    recorder = Recorder()
    for call in calls(Arco("http://arco.test", http=recorder)):
        with suppress(RequestedError):
            call()
    await worker_calls(HttpCoordinator("http://arco.test", system_runtime(), http=recorder))
    expected = operations(arco.openapi())

    assert len(expected) > 50
    missing = [
        operation
        for operation, pattern in expected.items()
        if not any(
            method == operation[0] and pattern.fullmatch(path) for method, path in recorder.requests
        )
    ]
    assert missing == []


def test_objects_are_created_changed_dropped_and_restored(arco: Arco) -> None:
    arco.catalogs.create("lake", comment="All of it", properties={"team": "data"})
    arco.schemas.create("lake.raw")
    created = arco.tables.create(
        "lake.raw.orders", format="parquet", columns=COLUMNS, tags=["gold"]
    )
    assert (created.full_name, created.columns[0].name) == ("lake.raw.orders", "id")

    arco.columns.add("lake.raw.orders", [{"name": "amount", "data_type": "decimal(10,2)"}])
    updated = arco.tables.update("lake.raw.orders", comment="What was sold", if_commit=None)
    assert [each.name for each in updated.columns] == ["id", "amount"]
    with pytest.raises(PreconditionFailed):
        arco.tables.update("lake.raw.orders", comment="Stale", if_commit=created.commit)
    renamed = arco.tables.rename("lake.raw.orders", "lake.raw.sales")
    assert [each.full_name for each in arco.tables.list(catalog="lake")] == [renamed.full_name]

    with pytest.raises(NotEmpty):
        arco.catalogs.drop("lake")
    arco.tables.drop("lake.raw.sales")
    assert [each.id for each in arco.tables.list("lake.raw", dropped=True)] == [created.id]
    arco.tables.undrop("lake.raw.sales", new_name="orders")
    assert arco.tables.get("lake.raw.orders").comment == "What was sold"
    assert arco.tables.get("lake.raw.orders", as_of=str(created.commit)).comment is None
    operations = [each.operation for each in arco.tables.history("lake.raw.orders")]
    assert operations[-1] == "create_table"
    assert {each.name for each in arco.schemas.diff("lake.raw", start="0")} >= {"lake.raw"}


def test_a_document_keeps_what_the_server_sent(arco: Arco) -> None:
    catalog = arco.catalogs.get("default")
    assert b'"full_name":"default"' in catalog.raw.replace(b" ", b"")
    assert arco.object(catalog.id) == catalog


def test_rows_of_a_query_come_as_lists_dictionaries_or_arrow(arco: Arco) -> None:
    sql = "SELECT name FROM system.catalogs WHERE name = 'default'"
    result = arco.query(sql)
    assert (result.rows, result.dicts()) == ([["default"]], [{"name": "default"}])
    assert arco.query_arrow(sql).to_pylist() == result.dicts()


def test_the_server_answers_for_itself(arco: Arco) -> None:
    assert arco.is_live()
    assert arco.is_ready()
    assert arco.health().status in ("ok", "degraded")
    assert {each.domain for each in arco.lag()} >= {"executions"}
    assert "arco_" in arco.metrics()
    assert arco.manifest().number == next(arco.commits()).number


def test_what_does_not_exist_is_an_error_of_arco(arco: Arco) -> None:
    with pytest.raises(NotFound, match="no run"):
        arco.runs.get("01M7GVFS186HGNANJXDTGV0000")
    assert list(arco.runs.list()) == []
