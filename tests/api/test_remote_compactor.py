"""The compactor over HTTP: both sides with real servers, their failures, and notifications."""

import asyncio
import io
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

from arco.access.identity import ServiceToken
from arco.api.http.telemetry import Log
from arco.api.internal import InternalServices, make_internal_app
from arco.api.remote_compactor import RemoteCompactor, RemoteNotifier
from arco.catalog.compactor_port import CompactorPort, Guard, PublishedCommit, SyncCompact, no_guard
from arco.catalog.manifest import manifests_of
from arco.compactor.catalog_compactor import CatalogCompactor
from arco.core.errors import ArcoError, Conflict, Corrupt, Fenced, Invalid, Unavailable, Unknown
from arco.core.ids import new_ulid
from arco.core.runtime import Runtime, system_runtime
from arco.core.scope import Scope
from arco.fold.tier1 import DOMAIN
from arco.storage.local import LocalBackend
from arco.storage.roles import Role
from arco.storage.store import Store
from tests.api.server import Options, listening, looped, served
from tests.processes.server import eventually, free_port

SECRET = "a-service-token-for-tests"
CALL = SyncCompact(
    domain="catalog",
    event_paths=(),
    events=(),
    commit_ulid="01ARZ3NDEKTSV4RRFFQ69G5FAV",
    fencing_token=0,
    base_manifest=-1,
)


class Remote(NamedTuple):
    url: str
    log: io.BytesIO


@contextmanager
def compactor_at(make: Callable[[Store], CompactorPort], root: Path) -> Iterator[Remote]:
    """A compactor as a process of its own would serve it."""
    runtime, scope, lines = system_runtime(), Scope(), io.BytesIO()
    with looped() as loop:
        store = Store(
            LocalBackend(root, runtime, fsync=False), runtime, scope=scope, role=Role.COMPACTOR
        )
        chain = manifests_of(store, "catalog")

        async def look() -> int:
            return (await chain.head()).number

        compactor = make(store)
        services = InternalServices(
            runtime=runtime,
            scope=scope,
            identity=ServiceToken(SECRET, scope),
            compactor=compactor,
            read_head_number=look,
            store=store,
            log=Log(lines, runtime.clock),
        )
        with listening(make_internal_app(services), loop, services.log) as url:
            yield Remote(url, lines)
        if isinstance(compactor, CatalogCompactor):
            asyncio.run_coroutine_threadsafe(compactor.close(), loop).result(30)


class Failing:
    """Fills the port with one error."""

    def __init__(self, problem: Exception) -> None:
        self._problem = problem

    async def sync_compact(
        self,
        call: SyncCompact,
        guard: Guard = no_guard,
    ) -> PublishedCommit:
        raise self._problem

    async def mark_orphans(self, before: str, domain: str = DOMAIN) -> PublishedCommit:
        raise self._problem

    async def merge(self) -> PublishedCommit | None:
        raise self._problem


async def _once(
    url: str, ask: Callable[[RemoteCompactor], Coroutine[Any, Any, Any]], **settings: Any
) -> Any:
    remote = RemoteCompactor(url, settings.pop("token", SECRET), **settings)
    try:
        return await ask(remote)
    finally:
        await remote.close()


def test_a_catalog_is_changed_through_a_compactor_on_the_other_side(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with compactor_at(CatalogCompactor, root) as remote:
        over_http = Options(compactor=lambda _store: RemoteCompactor(remote.url, SECRET))
        with served(root, over_http) as api, api.client() as http:
            schemas = "/api/v1/catalogs/default/schemas"
            assert http.post(schemas, json={"name": "raw"}).status_code == 201
            for number in range(30):
                body = {"name": f"t{number}", "format": "CSV"}
                assert http.post(f"{schemas}/raw/tables", json=body).status_code == 201
            assert len(http.get(f"{schemas}/raw/tables").json()["items"]) == 30
            assert SECRET not in api.log
        runtime = system_runtime()
        marked = asyncio.run(_once(remote.url, lambda to: to.mark_orphans(new_ulid(runtime))))
        assert marked.manifest_version > 30
        with pytest.raises(Invalid, match="nothing of search is published"):  # in that domain
            asyncio.run(_once(remote.url, lambda to: to.mark_orphans(new_ulid(runtime), "search")))
        merged = asyncio.run(_once(remote.url, lambda to: to.merge()))
        assert merged is None or merged.manifest_version > marked.manifest_version
        with httpx2.Client(base_url=remote.url) as http:
            assert http.get("/health/ready").json()["manifest"] >= marked.manifest_version
            assert "sync_compact" in http.get("/metrics").text
    assert SECRET.encode() not in remote.log.getvalue()


@pytest.mark.parametrize(
    ("problem", "seen"),
    [
        (Conflict("rows have changed"), Conflict),
        (Fenced("stale token"), Fenced),
        (Invalid("event 3 cannot be folded"), Invalid),
        (Unavailable("the store is down"), Unavailable),
        (Unknown("who knows"), Unknown),
        (Corrupt("bytes"), Unknown),
        (RuntimeError("a bug"), Unknown),
    ],
)
def test_an_error_of_the_compactor_arrives_as_what_it_means(
    tmp_path: Path, problem: Exception, seen: type[ArcoError]
) -> None:
    with compactor_at(lambda _store: Failing(problem), tmp_path) as remote:
        for ask in (
            lambda to: to.sync_compact(CALL),
            lambda to: to.mark_orphans(CALL.commit_ulid),
            lambda to: to.merge(),
        ):
            with pytest.raises(seen) as caught:
                asyncio.run(_once(remote.url, ask))
            assert type(caught.value) is seen


def test_without_the_service_token_nothing_is_done(tmp_path: Path) -> None:
    with compactor_at(CatalogCompactor, tmp_path) as remote:
        with pytest.raises(Unavailable, match="unauthenticated"):
            asyncio.run(_once(remote.url, lambda to: to.merge(), token="another-service-token"))
        with httpx2.Client(base_url=remote.url) as http:
            for path in ("/internal/sync-compact", "/internal/mark-orphans", "/internal/merge"):
                assert http.post(path, json={}).status_code == 401


def test_a_call_that_is_not_understood_is_refused_as_a_whole(tmp_path: Path) -> None:
    with (
        compactor_at(CatalogCompactor, tmp_path) as remote,
        httpx2.Client(base_url=remote.url) as http,
    ):
        headers = {"Authorization": f"Bearer {SECRET}"}
        wrong: list[object] = [{}, {"domain": "catalog"}, {"newer": 1}, [], {"domain": 1}]
        for body in wrong:
            answer = http.post("/internal/sync-compact", json=body, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (400, "invalid")
        answer = http.post("/internal/mark-orphans", json={"before": "x"}, headers=headers)
        assert answer.status_code == 400


def test_a_compactor_that_is_not_there_has_done_nothing() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but not listening
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(Unavailable):
            asyncio.run(_once(url, lambda to: to.sync_compact(CALL)))
    for wrong in ("http://nowhere.invalid", "ftp://127.0.0.1", "127.0.0.1"):
        with pytest.raises(Unavailable):
            asyncio.run(_once(wrong, lambda to: to.merge()))


@contextmanager
def answering(answer: bytes | None) -> Iterator[str]:
    """A server that reads a request, answers these bytes, and hangs up; None: never answers."""
    listener = socket.create_server(("127.0.0.1", 0))
    done = threading.Event()

    def serve() -> None:
        line, _ = listener.accept()
        with line:
            line.recv(65_536)
            if answer is None:
                done.wait(10)
            else:
                line.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        done.set()
        thread.join()
        listener.close()


def _http(status: str, body: str, kind: str = "application/json") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return (head + body).encode()


@pytest.mark.parametrize(
    "answer",
    [
        None,
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
        b"nonsense\r\n\r\n",
        _http("200 OK", "{}"),
        _http("200 OK", "not json"),
        _http("200 OK", "null"),
        _http("200 OK", '{"manifest_version":1,"commit_ulid":"01ARZ3NDEKTSV4RRFFQ69G5FAX"}'),
        _http("500 Oops", "<html>", "text/html"),
        _http("502 Bad Gateway", '{"code":"unavailable"}'),
        _http("503 Busy", '{"code":"conflict"}', "text/html"),
        _http("503 Busy", "not json", "application/problem+json"),
        _http("409 Conflict", '{"code":"something_new"}', "application/problem+json"),
        _http("302 Found", ""),
        _http("204 No Content", ""),
    ],
)
def test_anything_that_is_no_clear_answer_is_unknown(answer: bytes | None) -> None:
    with answering(answer) as url, pytest.raises(Unknown):
        asyncio.run(_once(url, lambda to: to.sync_compact(CALL), answer_s=0.3))


def test_the_problem_of_a_compactor_that_turns_a_call_away_says_when_to_come_back() -> None:
    body = '{"code":"too_busy","detail":"x"}'
    kind = "application/problem+json\r\nRetry-After: 7"
    with answering(_http("503 Busy", body, kind)) as url, pytest.raises(Unavailable) as caught:
        asyncio.run(_once(url, lambda to: to.sync_compact(CALL)))
    assert caught.value.retry_after_ms == 7_000


STREAM = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
OTHER = "01ARZ3NDEKTSV4RRFFQ69G5FAW"


@dataclass
class Hearing:
    """A compactor that writes down what it hears."""

    url: str = ""
    news: list[tuple[str, str]] = field(default_factory=list)


@contextmanager
def hearing(root: Path, port: int = 0) -> Iterator[Hearing]:
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
            compactor=CatalogCompactor(store),
            read_head_number=look,
            store=store,
            log=Log(io.BytesIO(), runtime.clock),
            notify=lambda domain, stream: heard.news.append((domain, stream)),
        )
        with listening(make_internal_app(services), loop, services.log, port=port) as url:
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
        bell = RemoteNotifier(compactor, runtime)
        for _ in range(200):
            bell.notify("executions", STREAM)
            bell.notify("lineage", OTHER)
            await asyncio.sleep(0.001)

        async def look() -> bool:
            return {("executions", STREAM), ("lineage", OTHER)} <= set(heard.news)

        await eventually(look)
        assert len(heard.news) < 40
        bell.close()
        await compactor.close()


async def test_a_compactor_that_is_away_is_notified_once_when_it_is_back(
    tmp_path: Path, runtime: Runtime
) -> None:
    port = free_port()
    compactor = RemoteCompactor(f"http://127.0.0.1:{port}", SECRET)
    bell = RemoteNotifier(compactor, runtime)
    for _ in range(1_000):
        bell.notify("executions", STREAM)
        await runtime.tasks.turn()
    await asyncio.sleep(0.3)  # the first attempt has failed
    with hearing(tmp_path, port) as heard:

        async def look() -> bool:
            return heard.news == [("executions", STREAM)]

        await eventually(look)
        bell.close()
        await compactor.close()
