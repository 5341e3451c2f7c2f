"""The client side of the compactor's HTTP interface, for API processes.

It never reports a false failure (law 9): only a call that provably did not reach the compactor, or that the
compactor refused with a stable code, has failed. Any other answer that is not a success is `Unknown`.
"""

from typing import TypeVar

import httpx2
import msgspec

from arco.api.health_monitor import CompactionState, RemoteCompaction, RemoteReason
from arco.api.http.problem import CONTENT_TYPE
from arco.api.http.telemetry import trace_headers
from arco.api.internal import (
    MARK_ORPHANS,
    MERGE,
    NOTIFY,
    SYNC_COMPACT,
    OrphanMark,
    StreamNotification,
)
from arco.catalog.compactor_port import Guard, PublishedCommit, SyncCompact, no_guard
from arco.core import json
from arco.core.errors import (
    ArcoError,
    Conflict,
    Denied,
    Fenced,
    Invalid,
    Unauthenticated,
    Unavailable,
    Unknown,
)
from arco.core.runtime import Runtime
from arco.core.tasks import Task
from arco.fold.tier1 import DOMAIN
from arco.ledger.segment import Segment

T = TypeVar("T")

HEALTH = "/health"

_CONNECT_S = 2.0
_IDLE_S = 5.0
_HEALTH_S = 1.5
_ANSWER_S = 20.0  # less than the deadline of a request, so that the API can still answer its client
_NOTIFY_PAUSE_MS = 100  # so that a busy API does not spend its time on notifications
_NOTIFY_PAUSE_AFTER_FAILURE_MS = 2_000

# Refusals after which nothing was published, and that the caller can act on.
_REFUSALS: dict[str, type[ArcoError]] = {kind.code: kind for kind in (Conflict, Fenced, Invalid)}
# Codes of calls that were refused before they were carried out, for reasons other than their content.
_NOT_PROCESSED = frozenset(
    {Unavailable.code, Denied.code, Unauthenticated.code, "too_busy", "too_slow", "body_too_large"}
    | {"no_such_route", "method_not_allowed", "not_http", "not_json", "wrong_host"}
)


_NEVER_SENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.UnsupportedProtocol,
    httpx2.InvalidURL,
)


class _Problem(msgspec.Struct):
    code: str
    detail: str = ""


class _Compaction(msgspec.Struct):
    state: CompactionState


class _Report(msgspec.Struct):
    """The fields of a compactor's health report that the API reads."""

    compaction: _Compaction
    reasons: tuple[RemoteReason, ...] = ()


class RemoteCompactor:
    """A `CompactorPort` over HTTP."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        connect_s: float = _CONNECT_S,
        answer_s: float = _ANSWER_S,
        connections: int = 8,
    ) -> None:
        # A separate connection: probes must not queue behind the calls of a busy compactor.
        self._probe = httpx2.AsyncClient(
            base_url=url, timeout=_HEALTH_S, follow_redirects=False, trust_env=False
        )
        self._client = httpx2.AsyncClient(
            base_url=url,
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            timeout=httpx2.Timeout(answer_s, connect=connect_s),
            # The client closes idle connections long before the server does, so it never uses a closed one.
            limits=httpx2.Limits(max_connections=connections, keepalive_expiry=_IDLE_S),
            follow_redirects=False,
            trust_env=False,
        )

    async def sync_compact(self, call: SyncCompact, guard: Guard = no_guard) -> PublishedCommit:
        await guard()
        committed = await self._post(SYNC_COMPACT, call, PublishedCommit)
        if committed.commit_ulid != call.commit_ulid:
            raise Unknown("the compactor has answered about another commit")
        return committed

    async def mark_orphans(self, before: str, domain: str = DOMAIN) -> PublishedCommit:
        return await self._post(MARK_ORPHANS, OrphanMark(before, domain), PublishedCommit)

    async def merge(self) -> PublishedCommit | None:
        committed: PublishedCommit | None = await self._post(MERGE, {}, PublishedCommit | None)  # type: ignore[arg-type]
        return committed

    async def notify(self, domain: str, stream: str) -> None:
        """Notify it that a stream has new events; it would find them by itself, but later."""
        await self._answer(NOTIFY, StreamNotification(domain, stream))

    async def health(self) -> RemoteCompaction:
        """The health that it reports; a version too old to report any is at least reachable."""
        try:
            answer = await self._probe.get(HEALTH)
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL):
            raise Unavailable("the compactor does not answer") from None
        if answer.status_code >= 500:
            raise Unavailable(f"the compactor answers with status {answer.status_code}")
        try:
            report = json.decode(answer.content, _Report)
        except Invalid:
            return RemoteCompaction()
        return RemoteCompaction(report.compaction.state, report.reasons)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()
        await self._probe.aclose()

    async def _post(self, path: str, body: object, kind: type[T]) -> T:
        answer = await self._answer(path, body)
        try:
            return json.decode(answer.content, kind)
        except Invalid as problem:
            raise Unknown("the compactor's answer cannot be read") from problem

    async def _answer(self, path: str, body: object) -> httpx2.Response:
        """The answer to a call that succeeded; otherwise the error of this side."""
        try:
            answer = await self._client.post(
                path, content=json.encode(body), headers=trace_headers()
            )
        except _NEVER_SENT:
            # The error is not chained: it may name the address.
            raise Unavailable("the compactor cannot be reached") from None
        except (httpx2.HTTPError, httpx2.StreamError):
            raise Unknown("the compactor did not answer, and may have published") from None
        if answer.status_code not in {200, 204}:
            raise _refusal(answer)
        return answer


def _refusal(answer: httpx2.Response) -> ArcoError:
    """The error of an answer that is no success; one without a stable code may come from a proxy."""
    problem = None
    if answer.headers.get("content-type", "").startswith(CONTENT_TYPE):
        try:
            problem = json.decode(answer.content, _Problem)
        except Invalid:
            problem = None
    if problem is None:
        return Unknown(f"the compactor's answer was status {answer.status_code}, without a code")
    if problem.code in _NOT_PROCESSED:
        return Unavailable(
            f"the compactor turned the call away: {problem.code}", retry_after_ms=_wait_ms(answer)
        )
    if problem.code in _REFUSALS:
        return _REFUSALS[problem.code](problem.detail)
    return Unknown(f"the compactor failed with {problem.code!r}")


def _wait_ms(answer: httpx2.Response) -> int | None:
    text = answer.headers.get("retry-after", "")
    return int(text) * 1000 if text.isascii() and text.isdigit() and len(text) < 6 else None


class RemoteNotifier:
    """Notifies a compactor in another process which streams have new events, at most ten times a second.

    It only makes compaction start sooner, and no request waits for it. A notification that fails is sent
    again until it arrives: a compactor without Spark polls only every 20 minutes.
    """

    def __init__(self, compactor: RemoteCompactor, runtime: Runtime) -> None:
        self._compactor = compactor
        self._runtime = runtime
        self._streams: dict[tuple[str, str], None] = {}
        self._sender: Task[None] | None = None

    def notify(self, domain: str, stream: str, _segment: Segment | None = None, /) -> None:
        """Notify the compactor, soon, that a stream of a domain has new events."""
        self._streams[domain, stream] = None
        if self._sender is None or self._sender.done():
            self._sender = self._runtime.tasks.spawn(self._send())

    def close(self) -> None:
        """Send no more notifications."""
        self._streams.clear()
        if self._sender is not None:
            self._sender.cancel()

    async def _send(self) -> None:
        while self._streams:
            streams, self._streams = list(self._streams), {}
            pause_ms = _NOTIFY_PAUSE_MS
            for domain, stream in streams:
                try:
                    await self._compactor.notify(domain, stream)
                except ArcoError:
                    self._streams[domain, stream] = None
                    pause_ms = _NOTIFY_PAUSE_AFTER_FAILURE_MS
            await self._runtime.clock.sleep(pause_ms)
