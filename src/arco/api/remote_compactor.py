"""The API's side of the compactor's HTTP seam.

The one thing that matters here is never to report a false failure (law 9): only what provably did not reach
the compactor, or what the compactor itself refused with a code of ours, is a definite no. Everything else
that is not a clear yes is `Unknown`.
"""

from typing import TypeVar

import httpx2
import msgspec

from arco.api.compaction import RemoteCompaction, RemoteReason, State
from arco.api.internal import MARK_ORPHANS, MERGE, NOTIFY, SYNC_COMPACT, News, OrphanMark
from arco.api.problem import CONTENT_TYPE
from arco.api.tracing import outgoing
from arco.catalog.port import Committed, SyncCompact
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
from arco.fold.tier1 import DOMAIN

T = TypeVar("T")

HEALTH = "/health"

_CONNECT_S = 2.0
_IDLE_S = 5.0
_HEALTH_S = 1.5
_ANSWER_S = 20.0  # below what an API gives a request, so that it can still tell its caller

# Refusals after which it is sure that nothing was published, and that the caller can act on.
_REFUSALS: dict[str, type[ArcoError]] = {kind.code: kind for kind in (Conflict, Fenced, Invalid)}
# With these the call was turned away before it was carried out, for reasons that it is not to blame for.
_TURNED_AWAY = frozenset(
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


class _Told(msgspec.Struct):
    code: str
    detail: str = ""


class _Compaction(msgspec.Struct):
    state: State


class _Report(msgspec.Struct):
    """What a compactor says of its health, as far as it matters here."""

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
        # A line of its own: behind the calls of a busy compactor, a healthy one would seem silent.
        self._probe = httpx2.AsyncClient(
            base_url=url, timeout=_HEALTH_S, follow_redirects=False, trust_env=False
        )
        self._client = httpx2.AsyncClient(
            base_url=url,
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            timeout=httpx2.Timeout(answer_s, connect=connect_s),
            # Idle connections end here long before they end there, so none is found dead.
            limits=httpx2.Limits(max_connections=connections, keepalive_expiry=_IDLE_S),
            follow_redirects=False,
            trust_env=False,
        )

    async def sync_compact(self, call: SyncCompact) -> Committed:
        committed = await self._post(SYNC_COMPACT, call, Committed)
        if committed.commit_ulid != call.commit_ulid:
            raise Unknown("the compactor has answered about another commit")
        return committed

    async def mark_orphans(self, before: str, domain: str = DOMAIN) -> Committed:
        return await self._post(MARK_ORPHANS, OrphanMark(before, domain), Committed)

    async def merge(self) -> Committed | None:
        found: Committed | None = await self._post(MERGE, {}, Committed | None)  # type: ignore[arg-type]
        return found

    async def notify(self, domain: str, stream: str) -> None:
        """Tell it that a stream has something new; it would find out by itself, but later."""
        await self._answer(NOTIFY, News(domain, stream))

    async def health(self) -> RemoteCompaction:
        """How it says that it is; one that is too old to say is at least there."""
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
        """What it answered a success with; else the error that tells what that means."""
        try:
            answer = await self._client.post(path, content=json.encode(body), headers=outgoing())
        except _NEVER_SENT:
            # The error itself is not chained on: it may name the address.
            raise Unavailable("the compactor cannot be reached") from None
        except (httpx2.HTTPError, httpx2.StreamError):
            raise Unknown("the compactor did not answer, and may have published") from None
        if answer.status_code not in {200, 204}:
            raise _refusal(answer)
        return answer


def _refusal(answer: httpx2.Response) -> ArcoError:
    """What a refusal means; without one of our codes it may come from somebody between us."""
    told = None
    if answer.headers.get("content-type", "").startswith(CONTENT_TYPE):
        try:
            told = json.decode(answer.content, _Told)
        except Invalid:
            told = None
    if told is None:
        return Unknown(f"the compactor's answer was status {answer.status_code}, without a code")
    if told.code in _TURNED_AWAY:
        return Unavailable(
            f"the compactor turned the call away: {told.code}", retry_after_ms=_wait_ms(answer)
        )
    if told.code in _REFUSALS:
        return _REFUSALS[told.code](told.detail)
    return Unknown(f"the compactor failed with {told.code!r}")


def _wait_ms(answer: httpx2.Response) -> int | None:
    text = answer.headers.get("retry-after", "")
    return int(text) * 1000 if text.isascii() and text.isdigit() and len(text) < 6 else None
