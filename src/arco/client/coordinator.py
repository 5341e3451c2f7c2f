"""The coordinator of runs over HTTP, for workers: asynchronous, as a worker waits for many answers at once.

It fills the same port as the coordinator in the server's process. Calls that have the same effect however
often they are sent are retried. Those about attempts are not: the worker's own loops send them again, at
their own pace, and know when to stop.
"""

import gzip
from collections.abc import Sequence
from typing import TYPE_CHECKING

import httpx2
import msgspec

from arco.client.runs import state_request
from arco.client.transport import (
    API,
    CONNECT_S,
    JSON_TYPE,
    RESPONSE_S,
    HttpRetryPolicy,
    Params,
    bearer,
    check_url,
    is_loopback,
    not_arco,
    not_running,
    path,
    response_error,
    retry_after_ms,
)
from arco.core import json
from arco.core.errors import ArcoError, Fenced, StoreFull, Unavailable, Unknown
from arco.flow.coordinator.messages import (
    AttemptReport,
    Heartbeat,
    HeartbeatResponse,
    LeaseRequest,
    LeaseResponse,
    RunRequest,
    RunView,
)
from arco.flow.plan.table_state import PlanningState

if TYPE_CHECKING:
    from arco.core.runtime import Runtime
    from arco.flow.plan.plan import Plan

_COMPRESSED_BYTES = 64 * 1024  # larger bodies are compressed
_IDLE_S = 20.0  # less than a server keeps an idle connection
_UNREACHABLE = (httpx2.ConnectError, httpx2.ConnectTimeout)
_MAX_CONNECTIONS = 2_000  # two for each slot of a worker, and some


class _StoppedAttempts(msgspec.Struct, frozen=True):
    attempt_ids: tuple[str, ...]


class HttpCoordinator:
    """The coordinator of a running Arco; implements `arco.flow.coordinator.ports.Coordinator`."""

    def __init__(
        self,
        url: str,
        runtime: "Runtime",
        *,
        token: str | None = None,
        retry: HttpRetryPolicy | None = None,
        http: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        check_url(url)
        self.url = url.rstrip("/")
        self._runtime = runtime
        self._retry = HttpRetryPolicy() if retry is None else retry
        self._http = httpx2.AsyncClient(
            headers=bearer(token),
            timeout=httpx2.Timeout(RESPONSE_S, connect=CONNECT_S, pool=RESPONSE_S),
            limits=httpx2.Limits(
                max_connections=_MAX_CONNECTIONS,
                max_keepalive_connections=_MAX_CONNECTIONS,
                keepalive_expiry=_IDLE_S,
            ),
            follow_redirects=False,  # the token is for this server alone
            trust_env=not is_loopback(url),
            transport=http,
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def state(self, tables: Sequence[str], files_of: Sequence[str] = ()) -> PlanningState:
        body = state_request(tables, files_of)
        return json.decode(await self._retried("POST", "/flow/state", body), PlanningState)

    async def submit(self, request: RunRequest) -> RunView:
        return json.decode(await self._retried("POST", "/runs", request), RunView)

    async def get_run(self, run_id: str, since: int = 0, wait_ms: int = 0) -> RunView:
        params = {"since": str(since), "wait_ms": str(wait_ms)}
        return json.decode(await self._retried("GET", path("runs", run_id), None, params), RunView)

    async def cancel(self, run_id: str, by: str | None = None) -> RunView:
        raw = await self._retried("POST", path("runs", run_id, "cancel"), {"by": by})
        return json.decode(raw, RunView)

    async def retry(self, run_id: str, worker: str = "", plan: "Plan | None" = None) -> RunView:
        body = {"worker": worker, "plan": plan}
        return json.decode(
            await self._retried("POST", path("runs", run_id, "retry"), body), RunView
        )

    async def lease(self, offer: LeaseRequest) -> LeaseResponse:
        return json.decode(await self._once("POST", "/tasks/lease", offer), LeaseResponse)

    async def watch(
        self, worker: str, attempt_ids: tuple[str, ...], wait_ms: int = 0
    ) -> tuple[str, ...]:
        body = {"worker": worker, "attempt_ids": attempt_ids, "wait_ms": wait_ms}
        raw = await self._once("POST", "/tasks/watch", body)
        return json.decode(raw, _StoppedAttempts).attempt_ids

    async def heartbeat(self, beat: Heartbeat) -> HeartbeatResponse:
        where = path("tasks", beat.attempt_id, "heartbeat")
        return json.decode(await self._once("POST", where, beat), HeartbeatResponse)

    async def complete(self, completed: AttemptReport) -> None:
        await self._once("POST", path("tasks", completed.attempt_id, "completed"), completed)

    async def _retried(
        self, method: str, where: str, body: object, params: Params | None = None
    ) -> bytes:
        """The document of a call that may be sent more than once."""
        attempt = 1
        while True:
            try:
                return await self._once(method, where, body, params)
            except (Unavailable, Unknown) as problem:
                if attempt == self._retry.attempts or _is_final(problem):
                    raise
                asked_ms = problem.retry_after_ms if isinstance(problem, Unavailable) else None
            rng = self._runtime.rng
            await self._runtime.clock.sleep(self._retry.pause_ms(attempt, asked_ms, rng))
            attempt += 1

    async def _once(
        self, method: str, where: str, body: object, params: Params | None = None
    ) -> bytes:
        headers = {"Accept": JSON_TYPE}
        content = b"" if body is None else json.encode(body)
        if content:
            headers["Content-Type"] = JSON_TYPE
        if len(content) > _COMPRESSED_BYTES:
            plain = content
            content = await self._runtime.tasks.in_thread(lambda: gzip.compress(plain, 1))
            headers["Content-Encoding"] = "gzip"
        try:
            response = await self._http.request(
                method,
                f"{self.url}{API}{where}",
                params=dict(params or {}),
                content=content or None,
                headers=headers,
            )
        except _UNREACHABLE as problem:
            raise not_running(self.url) from problem
        except httpx2.HTTPError as problem:
            raise Unknown(f"{self.url} did not answer ({type(problem).__name__})") from problem
        if not response.is_success:
            raise _as_retryable(response_error(response, self.url), retry_after_ms(response))
        if response.status_code == 204:
            return b""
        if not response.headers.get("content-type", "").startswith(JSON_TYPE):
            raise not_arco(response.status_code, self.url)
        return response.content


def _is_final(problem: ArcoError) -> bool:
    """Whether no server listens, or the store is full: a person wants to know at once."""
    return isinstance(problem, StoreFull) or isinstance(problem.__cause__, _UNREACHABLE)


def _as_retryable(error: ArcoError, asked_ms: int | None) -> ArcoError:
    """The error of a response; a server that lost a lease can be asked again."""
    if type(error) is Fenced:
        return Unavailable(str(error), retry_after_ms=asked_ms)
    if isinstance(error, Unavailable):
        error.retry_after_ms = asked_ms
    return error
