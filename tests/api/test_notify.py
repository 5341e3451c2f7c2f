"""News of streams over HTTP: they are heard, they are few, and nobody waits for them."""

import asyncio
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from arco.access.identity import ServiceToken
from arco.api.internal import InternalServices, make_internal_app
from arco.api.log import make_log
from arco.api.remote_bell import RemoteBell
from arco.api.remote_compactor import RemoteCompactor
from arco.compactor.compactor import Compactor
from arco.core.runtime import Runtime, system_runtime
from arco.core.scope import Scope
from arco.storage.local import LocalBackend
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.api.running import listening, looped
from tests.processes.server import eventually, free_port

SECRET = "a-service-token-for-tests"
STREAM = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
OTHER = "01ARZ3NDEKTSV4RRFFQ69G5FAW"


@dataclass
class Hearing:
    """A compactor that writes down what it hears."""

    url: str = ""
    news: list[tuple[str, str]] = field(default_factory=list)


@contextmanager
def hearing(root: Path) -> Iterator[Hearing]:
    runtime, scope, heard = system_runtime(), Scope(), Hearing()
    with looped() as loop:
        backend = LocalBackend(root, runtime, fsync=False)
        store = Store(backend, runtime, scope=scope, role=Role.COMPACTOR)

        async def look() -> int:
            return 0

        services = InternalServices(
            runtime=runtime,
            scope=scope,
            identity=ServiceToken(SECRET, scope),
            compactor=Compactor(store),
            look=look,
            store=store,
            log=make_log(io.BytesIO(), runtime.clock),
            ring=lambda domain, stream: heard.news.append((domain, stream)),
        )
        with listening(make_internal_app(services), loop, services.log) as url:
            heard.url = url
            yield heard


def test_only_our_own_processes_may_ring_and_only_for_what_is_folded(tmp_path: Path) -> None:
    with hearing(tmp_path) as heard, httpx2.Client(base_url=heard.url, trust_env=False) as http:
        good = {"domain": "executions", "stream": STREAM}
        assert http.post("/internal/notify", json=good).status_code == 401
        http.headers["Authorization"] = f"Bearer {SECRET}"
        for wrong in ({**good, "domain": "catalog"}, {**good, "stream": "../x"}, {}):
            assert http.post("/internal/notify", json=wrong).status_code == 400
        assert heard.news == []
        assert http.post("/internal/notify", json=good).status_code == 204
        assert heard.news == [("executions", STREAM)]


async def test_a_storm_of_rings_is_a_few_calls_and_none_of_its_streams_is_lost(
    tmp_path: Path, runtime: Runtime
) -> None:
    with hearing(tmp_path) as heard:
        compactor = RemoteCompactor(heard.url, SECRET)
        bell = RemoteBell(compactor, runtime)
        for _ in range(200):
            bell.ring("executions", STREAM)
            bell.ring("lineage", OTHER)
            await asyncio.sleep(0.001)

        async def look() -> bool:
            return {("executions", STREAM), ("lineage", OTHER)} <= set(heard.news)

        await eventually(look)
        assert len(heard.news) < 40
        bell.close()
        await compactor.close()


async def test_a_compactor_that_is_away_costs_nothing_and_hears_of_later_news(
    tmp_path: Path, runtime: Runtime
) -> None:
    away = RemoteCompactor(f"http://127.0.0.1:{free_port()}", SECRET)
    bell = RemoteBell(away, runtime)
    for _ in range(1_000):
        bell.ring("executions", STREAM)
        await runtime.tasks.turn()
    bell.close()
    await away.close()
    with hearing(tmp_path) as heard:
        back = RemoteCompactor(heard.url, SECRET)
        bell = RemoteBell(back, runtime)
        bell.ring("executions", OTHER)

        async def look() -> bool:
            return heard.news == [("executions", OTHER)]

        await eventually(look)
        bell.close()
        await back.close()
