"""The book of runs over HTTP: the same port that the process has that keeps it.

Calls that say the same however often they are sent are simply sent again. Those of a worker are not: its
own loops ask again, at their own pace, and know when to stop.
"""

import gzip
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import httpx2

from arco.api.flow.requests import (
    CancelRunRequest,
    FlowStateRequest,
    RetryRunRequest,
    StoppedAttempts,
    WatchAttemptsRequest,
)
from arco.cli.refusal import advise, refusal, stranger, wait_ms
from arco.cli.remote import API, Params, check_url, is_here, path
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

T = TypeVar("T")

_CONNECT_S = 5.0
_ANSWER_S = 40.0  # a server gives a request less than this
_ATTEMPTS = 5
_FIRST_PAUSE_MS = 200
_LONGEST_PAUSE_MS = 5_000
_PACKED_BYTES = 64 * 1024  # larger bodies are compressed
_IDLE_S = 20.0  # less than a server keeps an idle connection
_UNREACHABLE = (httpx2.ConnectError, httpx2.ConnectTimeout)
_MOST_CONNECTIONS = 2_000  # two for each slot of a worker, and some


class HttpCoordinator:
    """The book of runs of a running Arco."""

    def __init__(self, url: str, runtime: "Runtime", *, token: str | None = None) -> None:
        host = check_url(url).hostname or ""
        self.url = url.rstrip("/")
        self._runtime = runtime
        self._client = httpx2.AsyncClient(
            headers={} if token is None else {"Authorization": f"Bearer {token}"},
            timeout=httpx2.Timeout(_ANSWER_S, connect=_CONNECT_S, pool=_ANSWER_S),
            limits=httpx2.Limits(
                max_connections=_MOST_CONNECTIONS,
                max_keepalive_connections=_MOST_CONNECTIONS,
                keepalive_expiry=_IDLE_S,
            ),
            follow_redirects=False,  # the token is for this server alone
            trust_env=not is_here(host),  # no proxy leads to this machine
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def state(self, tables: Sequence[str], files_of: Sequence[str] = ()) -> PlanningState:
        asked = FlowStateRequest(tables=tuple(tables), files_of=tuple(files_of))
        return json.decode(await self._again("POST", "/flow/state", asked), PlanningState)

    async def submit(self, wish: RunRequest) -> RunView:
        return json.decode(await self._again("POST", "/runs", wish), RunView)

    async def get_run(self, run_id: str, since: int = 0, wait_ms: int = 0) -> RunView:
        params = {"since": str(since), "wait_ms": str(wait_ms)}
        return json.decode(await self._again("GET", path("runs", run_id), None, params), RunView)

    async def cancel(self, run_id: str, by: str | None = None) -> RunView:
        body = await self._again("POST", path("runs", run_id, "cancel"), CancelRunRequest(by=by))
        return json.decode(body, RunView)

    async def retry(self, run_id: str, worker: str = "", plan: "Plan | None" = None) -> RunView:
        wish = RetryRunRequest(worker=worker, plan=plan)
        body = await self._again("POST", path("runs", run_id, "retry"), wish)
        return json.decode(body, RunView)

    async def lease(self, offer: LeaseRequest) -> LeaseResponse:
        return json.decode(await self._once("POST", "/tasks/lease", offer), LeaseResponse)

    async def watch(
        self, worker: str, attempt_ids: tuple[str, ...], wait_ms: int = 0
    ) -> tuple[str, ...]:
        asked = WatchAttemptsRequest(worker=worker, attempt_ids=attempt_ids, wait_ms=wait_ms)
        answer = json.decode(await self._once("POST", "/tasks/watch", asked), StoppedAttempts)
        return answer.attempt_ids

    async def heartbeat(self, beat: Heartbeat) -> HeartbeatResponse:
        where = path("tasks", beat.attempt_id, "heartbeat")
        return json.decode(await self._once("POST", where, beat), HeartbeatResponse)

    async def complete(self, completed: AttemptReport) -> None:
        await self._once("POST", path("tasks", completed.attempt_id, "completed"), completed)

    async def _again(
        self, method: str, where: str, body: object, params: Params | None = None
    ) -> bytes:
        """The answer to a call that may be sent more than once."""
        attempt = 1
        while True:
            try:
                return await self._once(method, where, body, params)
            except (Unavailable, Unknown) as problem:
                if attempt == _ATTEMPTS or _is_for_now(problem):
                    raise
                asked_ms = problem.retry_after_ms if isinstance(problem, Unavailable) else None
            await self._runtime.clock.sleep(self._pause_ms(attempt, asked_ms))
            attempt += 1

    async def _once(
        self, method: str, where: str, body: object, params: Params | None = None
    ) -> bytes:
        headers = {"Accept": "application/json"}
        content = b"" if body is None else json.encode(body)
        if content:
            headers["Content-Type"] = "application/json"
        if len(content) > _PACKED_BYTES:
            plain = content
            content = await self._runtime.tasks.in_thread(lambda: gzip.compress(plain, 1))
            headers["Content-Encoding"] = "gzip"
        try:
            answer = await self._client.request(
                method,
                f"{self.url}{API}{where}",
                params=dict(params or {}),
                content=content or None,
                headers=headers,
            )
        except _UNREACHABLE as problem:
            step = "Start one with `arco up`, or name another with --url."
            raise advise(Unavailable(f"no Arco is running at {self.url}"), step) from problem
        except httpx2.HTTPError as problem:
            name = type(problem).__name__
            raise Unknown(f"{self.url} did not answer ({name})") from problem
        if not answer.is_success:
            raise _told(refusal(answer, self.url), wait_ms(answer))
        if answer.status_code == 204:
            return b""
        if not answer.headers.get("content-type", "").startswith("application/json"):
            raise stranger(answer.status_code, self.url)
        return answer.content

    def _pause_ms(self, attempt: int, asked_ms: int | None) -> float:
        ms = _FIRST_PAUSE_MS * 2 ** (attempt - 1) if asked_ms is None else asked_ms
        return min(ms, _LONGEST_PAUSE_MS) * (1 + self._runtime.rng.random() / 4)


def _is_for_now(problem: ArcoError) -> bool:
    """Whether nothing listens at all, or the store is full: a person would rather know at once."""
    return isinstance(problem, StoreFull) or isinstance(problem.__cause__, _UNREACHABLE)


def _told(error: ArcoError, asked_ms: int | None) -> ArcoError:
    """The error of a refusal; a server that has lost a lease of its own can be asked again."""
    if type(error) is Fenced:
        return Unavailable(str(error), retry_after_ms=asked_ms)
    if isinstance(error, Unavailable):
        error.retry_after_ms = asked_ms
    return error
