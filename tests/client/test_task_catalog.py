"""The catalog that tasks use, over the native API of a running server."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from arco.catalog.publication import DispatchedAttempt
from arco.client.task_catalog import HttpTaskCatalog
from arco.core.errors import AttemptFenced, NotFound
from arco.core.runtime import system_runtime
from arco.flow.publish.wire import FilesStaged, StagedFile
from arco.flow.worker.ports import CatalogColumn, NewCatalogTable
from arco.server.embedded import embedded_server
from arco.server.workspace_address import WorkspaceAddress

T = TypeVar("T")

ID, NOTE = (
    CatalogColumn(name="id", data_type="bigint"),
    CatalogColumn(name="note", data_type="string"),
)
ORDERS = NewCatalogTable(
    name="default.silver.orders",
    format="parquet",
    columns=(ID,),
    partition_columns=("ds",),
    comment="Clean orders",
    owner="user:ada",
    tags=("gold",),
)


async def with_catalog(
    work: Callable[[HttpTaskCatalog], T], place: WorkspaceAddress | None = None
) -> T:
    """What `work` finds, in a thread as a task's."""
    runtime = system_runtime()
    async with embedded_server(place or WorkspaceAddress(store="memory://"), runtime) as server:
        catalog = HttpTaskCatalog(server.url, runtime)
        try:
            return await asyncio.to_thread(work, catalog)
        finally:
            catalog.close()


async def test_a_table_is_created_with_its_schema_and_a_second_creator_gets_the_same() -> None:
    def work(catalog: HttpTaskCatalog) -> None:
        assert catalog.find(ORDERS.name) is None
        made = catalog.make(ORDERS)
        assert (made.format, [each.name for each in made.columns]) == ("parquet", ["id"])
        assert made.location.endswith(f"/{made.table_id}/")
        assert catalog.make(ORDERS) == made == catalog.find(ORDERS.name)

    await with_catalog(work)


async def test_a_table_says_which_columns_are_marked_as_pii() -> None:
    def work(catalog: HttpTaskCatalog) -> None:
        catalog.make(ORDERS)
        url = "/catalogs/default/schemas/silver/tables/orders/columns/id"
        catalog.arco.transport.change("PATCH", url, {"pii_type": "CUSTOMER_ID"})
        table = catalog.find(ORDERS.name)
        assert table is not None
        assert [each.pii_type for each in table.columns] == ["CUSTOMER_ID"]

    await with_catalog(work)


async def test_a_schema_is_made_for_a_table_that_is_not_there_yet_and_once() -> None:
    def work(catalog: HttpTaskCatalog) -> None:
        for _ in range(2):
            catalog.make_schema("default.ops.board")
        assert b'"default.ops"' in catalog.arco.transport.get("/catalogs/default/schemas")
        assert catalog.find("default.ops.board") is None

    await with_catalog(work)


async def test_a_table_gets_the_columns_that_it_lacks() -> None:
    def work(catalog: HttpTaskCatalog) -> None:
        made = catalog.make(ORDERS)
        wide = catalog.widen(made, (ID, NOTE))
        assert [each.name for each in wide.columns] == ["id", "note"]
        assert catalog.widen(made, (ID, NOTE)) == wide  # who knows the old one alone
        assert catalog.widen(wide, (ID,)) is wide

    await with_catalog(work)


async def test_a_description_is_brought_to_what_the_definition_says_and_no_further() -> None:
    other = NewCatalogTable(
        name=ORDERS.name, format="parquet", columns=(), comment="Better", tags=("x",)
    )

    def work(catalog: HttpTaskCatalog) -> None:
        made = catalog.make(ORDERS)
        for _ in range(2):
            catalog.describe(made, other)
        answer = catalog.arco.transport.get("/catalogs/default/schemas/silver/tables/orders")
        assert b'"comment":"Better"' in answer
        assert b'"owner":"user:ada"' in answer
        assert b'"tags":["gold","x"]' in answer

    await with_catalog(work)


async def test_files_are_published_by_the_attempt_that_may(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    root = tmp_path_factory.mktemp("catalog")

    def staged(table_id: str, attempt_id: str, task: str) -> FilesStaged:
        path = f"data/{attempt_id}/part-0.parquet"
        file = root / "tenant=default/workspace=default/warehouse" / table_id / path
        file.parent.mkdir(parents=True)
        file.write_bytes(b"PAR1")
        return FilesStaged(
            table_id=table_id,
            attempt=DispatchedAttempt(
                attempt_id=attempt_id,
                task=task,
                dispatched_at_number=-1,
                dispatched_at_ms=system_runtime().clock.now_ms(),
                partitions=("ds=1",),
            ),
            mode="replace_partition",
            files={"ds=1": (StagedFile(path=path, rows=3, bytes=4),)},
        )

    def work(catalog: HttpTaskCatalog) -> None:
        made = catalog.make(ORDERS)
        first = staged(made.table_id, "a" * 32, "r1/silver.orders@ds=1")
        done = catalog.publish(first)
        assert (done.number, done.rows, done.files) == (0, 3, 1)
        assert catalog.publish(first) == done
        with pytest.raises(AttemptFenced):
            catalog.publish(staged(made.table_id, "b" * 32, "r2/silver.orders@ds=1"))
        now = catalog.files(made.table_id)
        assert (now.number, now.materials) == (0, {"ds=1": "a" * 32})
        assert now.location.startswith(f"file://{root}/")
        with pytest.raises(NotFound):
            catalog.files("01a1e0f6-9113-7475-bb94-e3fac6dcb4cd")

    await with_catalog(work, WorkspaceAddress(root=str(root), no_fsync=True))
