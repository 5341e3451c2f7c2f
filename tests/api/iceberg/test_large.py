"""Metadata that are large: what is made of them is made once, and never in the way of others."""

import gzip
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from arco.access.authorization import Operation
from arco.access.principal import Principal
from arco.api.http.request import Call
from arco.api.iceberg.context import IcebergHandlerContext
from arco.core.runtime import Runtime
from arco.core.scope import Scope
from arco.core.tasks import AsyncioTasks
from arco.iceberg.engine.metadata import encode_metadata
from arco.iceberg.engine.new_table import new_table
from arco.iceberg.loaded_metadata import LoadedMetadata, SnapshotsMode
from arco.iceberg.wire import CreateTableRequest
from tests.api.iceberg.warehouse import SCHEMA, Warehouse
from tests.api.server import Served

T = TypeVar("T")

SIZE = 400_000
PART = 50_000
UUID = "0192f3a4-1111-7222-8333-444455556666"


class CountingTasks(AsyncioTasks):
    """Counts what is done beside the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    async def in_thread(self, call: Callable[[], T]) -> T:
        self.calls += 1
        return await super().in_thread(call)


def call(**headers: str) -> Call[Any, Any]:
    return Call(
        operation=Operation.ICEBERG_LOAD_TABLE,
        principal=Principal("user:ann", Scope()),
        path_params={},
        path=b"",
        query_string=b"",
        headers={name.replace("_", "-").encode(): text.encode() for name, text in headers.items()},
        arrived_ms=0,
    )


def long_properties() -> dict[str, str]:
    """Properties of so many bytes together, none of them longer than it may be."""
    part = "".join(f"{number:07d}" for number in range(PART // 7))
    return {f"long-{at}": part for at in range(SIZE // PART)}


@pytest.mark.parametrize("form", list(SnapshotsMode))
async def test_a_large_answer_is_compressed_once_however_many_ask(
    api: Served, form: SnapshotsMode
) -> None:
    assert api.services.iceberg is not None
    tasks = CountingTasks()
    runtime = Runtime(api.services.runtime.clock, api.services.runtime.rng, tasks)
    handler_context = IcebergHandlerContext(
        replace(api.services, runtime=runtime), api.services.iceberg
    )
    wish = CreateTableRequest(name="t", schema=SCHEMA, properties=long_properties())
    metadata = new_table(wish, table_uuid=UUID, location="s3://bucket/t", now_ms=1)
    location = "s3://bucket/t/metadata/00000-x.metadata.json"
    loaded = LoadedMetadata(location, encode_metadata(metadata))
    asked = call(accept_encoding="gzip")
    replies = await tasks.gather(*(handler_context.loaded(asked, loaded, form) for _ in range(8)))
    assert tasks.calls == 1
    assert {reply.headers["Content-Encoding"] for reply in replies} == {"gzip"}
    assert {gzip.decompress(reply.body) for reply in replies} == {loaded.body(form)}
    await handler_context.loaded(asked, loaded, form)
    await handler_context.loaded(call(), loaded, form)
    assert tasks.calls == 1


def test_many_who_load_a_large_table_at_once_all_get_it(warehouse: Warehouse) -> None:
    warehouse.make_table("wide")
    long = long_properties()
    change = {"requirements": [], "updates": [{"action": "set-properties", "updates": long}]}
    assert warehouse.http.post(warehouse.table("wide"), json=change).status_code == 200
    url = warehouse.table("wide")

    def load(form: str, encoding: str) -> Any:
        answer = warehouse.http.get(
            url, params={"snapshots": form}, headers={"Accept-Encoding": encoding}
        )
        assert answer.headers.get("content-encoding", "identity") == encoding
        actual = answer.json()["metadata"]["properties"]
        return {key: actual[key] for key in long}

    forms = ["all", "refs"] * 4
    encodings = ["gzip", "gzip", "identity", "identity"] * 2
    with ThreadPoolExecutor(8) as threads:
        assert all(actual == long for actual in threads.map(load, forms, encodings))
