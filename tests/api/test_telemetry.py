"""Log lines, metrics and spans of requests: what they contain, and that they contain no secret."""

import io
import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx2
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from arco.access.identity import BearerIdentity
from arco.access.principal import Principal
from arco.access.token import LocalTokens
from arco.api.http.telemetry import LibraryLogHandler, Log, RequestTracing
from arco.core.runtime import Runtime, system_runtime
from arco.core.scope import Scope
from arco.storage.backend import Backend
from tests.api.server import Options, Served, served
from tests.api.slow_store import Slow

CANARY = "canary7f3a9c"
KEY = CANARY.encode() * 4


class Watched(NamedTuple):
    """A server whose every way of telling is collected."""

    api: Served
    spans: InMemorySpanExporter
    token: str
    root: Path
    stores: list["Breaking"]

    def lines(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.api.log.splitlines()]


class Breaking(Slow):
    """A store that fails with words that name its paths and a signed URL."""

    broken = False

    async def get(self, key: str) -> bytes:
        if self.broken:
            raise RuntimeError(f"https://{CANARY}.example/{key}?X-Amz-Signature={CANARY}")
        return await super().get(key)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    tokens = LocalTokens(KEY, system_runtime())
    root, stores = tmp_path / f"{CANARY}-store", []

    def wrap(inner: Backend) -> Backend:
        stores.append(Breaking(inner))
        return stores[-1]

    options = Options(
        identity=lambda scope, runtime: BearerIdentity(LocalTokens(KEY, runtime), scope),
        tracing=RequestTracing(provider),
        wrap=wrap,
        hosts=None,
    )
    with served(root, options) as api:
        token = tokens.mint(Principal("user:ana", Scope()), life_s=600)
        yield Watched(api, spans, token, root, stores)


def _client(watched: Watched) -> httpx2.Client:
    return watched.api.client(headers={"Authorization": f"Bearer {watched.token}"})


def test_a_request_keeps_its_id_and_a_bad_one_gets_another(http: httpx2.Client) -> None:
    mine = http.get("/health/live", headers={"X-Request-Id": "abc-1.2_X"})
    assert mine.headers["x-request-id"] == "abc-1.2_X"
    for bad in ("a b", "x" * 65, "", "é"):
        given = http.get("/health/live", headers={b"X-Request-Id": bad.encode()})
        assert len(given.headers["x-request-id"]) == 24
    assert len({http.get("/health/live").headers["x-request-id"] for _ in range(20)}) == 20


def test_every_request_is_one_line_of_json(watched: Watched) -> None:
    with _client(watched) as http:
        answer = http.get("/api/v1/catalogs/nothing?as_of=0", headers={"X-Request-Id": "it"})
    line = next(line for line in watched.lines() if line.get("request_id") == "it")
    assert answer.status_code == 404
    assert (line["event"], line["operation"], line["status"]) == ("request", "get_catalog", 404)
    assert (line["code"], line["principal"]) == ("not_found", "user:ana")
    assert line["path"] == "/api/v1/catalogs/nothing"
    assert isinstance(line["ms"], float)


def test_metrics_count_requests_and_what_the_store_was_asked(watched: Watched) -> None:
    with _client(watched) as http:
        for _ in range(3):
            http.get("/api/v1/catalogs/default")
        text = http.get("/metrics").text
    assert 'arco_http_requests_total{operation="get_catalog",status="200"} 3.0' in text
    assert 'arco_http_request_seconds_count{operation="get_catalog"} 3.0' in text
    assert "arco_http_requests_in_flight 1.0" in text
    assert 'arco_store_requests_total{outcome="ok",verb="create"}' in text


def test_a_span_is_below_the_callers_and_names_the_operation(watched: Watched) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    with _client(watched) as http:
        http.get(
            "/api/v1/catalogs/default", headers={"traceparent": f"00-{trace}-b7ad6b7169203331-01"}
        )
        http.get("/api/v1/catalogs/default", headers={"traceparent": "nonsense"})
    first, second = watched.spans.get_finished_spans()[-2:]
    assert first.name == "GET /api/v1/catalogs/{catalog}"
    assert format(_context(first), "032x") == trace
    assert first.attributes is not None
    assert first.attributes["arco.operation"] == "get_catalog"
    assert format(_context(second), "032x") != trace


def test_no_token_signed_url_or_path_of_the_store_is_in_any_answer_log_or_span(
    watched: Watched,
) -> None:
    answers: list[httpx2.Response] = []
    with _client(watched) as http:
        answers += [
            http.post("/api/v1/catalogs", json={"name": "a"}, headers={"Idempotency-Key": CANARY}),
            http.get(f"/api/v1/catalogs?token={CANARY}"),
            http.get(f"/api/v1/catalogs?page_token={CANARY}"),
            http.get("/api/v1/catalogs", headers={"Authorization": f"Bearer {CANARY}"}),
            http.get("/api/v1/catalogs", headers={"Cookie": CANARY, "Proxy-Authorization": CANARY}),
            http.post("/api/v1/catalogs", content=f'{{"{CANARY}'.encode()),
            http.get("/api/v1/commits/0"),
            http.get("/api/v1/manifests/catalog"),
        ]
        watched.stores[0].broken = True
        for url in (
            "/api/v1/catalogs",
            "/api/v1/commits/0",
            "/api/v1/manifests/catalog",
            "/health/ready",
        ):
            answers.append(http.get(url))
        answers.append(http.post("/api/v1/catalogs", json={"name": "b"}))
        watched.stores[0].broken = False
        for damaged in watched.root.rglob("manifests/catalog/*.json"):
            damaged.write_bytes(b"{")
        for url in ("/api/v1/commits/0", "/api/v1/catalogs?as_of=0", "/api/v1/diff?from=0"):
            answers.append(http.get(url))
        answers.append(http.get("/metrics"))
    failed = [answer for answer in answers if not answer.is_success]
    assert {answer.status_code for answer in failed} >= {400, 401, 415, 500}
    document = [*(answer.text for answer in answers), watched.api.log, *_spans(watched)]
    for text in document:
        for secret in (CANARY, watched.token, str(watched.root), "X-Amz-Signature", "tenant="):
            assert secret not in text, text[:500]


def _context(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.trace_id


def _spans(watched: Watched) -> list[str]:
    spans = watched.spans.get_finished_spans()
    assert len(spans) > 10
    return [span.to_json() for span in spans]


def test_lines_are_json_with_a_time_and_a_level(runtime: Runtime) -> None:
    stream = io.BytesIO()
    Log(stream, runtime.clock).warning("slow", ms=3)
    line = json.loads(stream.getvalue())
    assert (line["event"], line["level"], line["ms"]) == ("slow", "warning", 3)
    assert line["at"].endswith("Z")


def test_lines_below_the_level_are_not_written(runtime: Runtime) -> None:
    stream = io.BytesIO()
    log = Log(stream, runtime.clock, level=logging.WARNING)
    log.info("chatter")
    assert stream.getvalue() == b""


def test_an_exception_of_a_library_is_logged_by_its_type_and_place(runtime: Runtime) -> None:
    stream = io.BytesIO()
    handler = LibraryLogHandler(Log(stream, runtime.clock))
    try:
        _fail()
    except ValueError:
        failed = sys.exc_info()
    message = "Exception in ASGI application\n"
    handler.emit(logging.LogRecord("uvicorn.error", logging.ERROR, "x", 1, message, None, failed))
    line = json.loads(stream.getvalue())
    assert (line["error"], line["level"]) == ("ValueError", "error")
    assert line["places"][-1].endswith(" _fail")
    assert b"secret" not in stream.getvalue()


def _fail() -> None:
    raise ValueError("the secret of /srv/lake")
